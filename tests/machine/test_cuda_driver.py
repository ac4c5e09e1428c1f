from ddpcheck.machine.cuda_driver import gpus_in_driver


def test_no_driver_is_none() -> None:
    assert gpus_in_driver("libcuda-that-is-not-there.so") is None


def test_another_library_is_none() -> None:
    assert gpus_in_driver("libc.so.6") is None
