from ddpcheck.render.training import training_lines


def test_each_strategy_that_was_compared_has_a_line() -> None:
    broken = {"kind": "gradient", "step": 2, "name": "head.weight", "relative": 0.1}
    rows = [
        {"strategy": "ddp", "mesh": "dp=2", "precision": "fp32", "result": "pass", "broken": None},
        {
            "strategy": "tp",
            "mesh": "tp=2",
            "precision": "bf16",
            "result": "fail",
            "broken": broken,
            "suspect": {"name": "norm.bias"},
        },
        {"strategy": "pp", "options": {"schedule": "gpipe"}, "result": "pass"},
        {"strategy": "hsdp", "mesh": "", "result": "skip", "reason": "it needs 4 ranks"},
    ]
    assert training_lines({"parity": rows}) == [
        "parity pass: ddp dp=2, fp32",
        "parity fail: tp tp=2, bf16, gradient of head.weight, first at step 2, farthest off norm.bias",
        "parity pass: pp, schedule=gpipe",
        "parity skip: hsdp, it needs 4 ranks",
    ]


def test_what_another_version_wrote_is_left_out() -> None:
    assert training_lines({"parity": "passed"}) == []
    assert training_lines({"parity": [3]}) == []
