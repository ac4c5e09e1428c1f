import pytest

from ddpcheck.measures.slurm import hosts_of, is_task_of_srun, tasks_on_nodes


@pytest.mark.parametrize(
    ("hostlist", "hosts"),
    [
        ("node1", ["node1"]),
        ("node1,node2", ["node1", "node2"]),
        ("node[1-3,7],gpu-[01-02]-a", ["node1", "node2", "node3", "node7", "gpu-01-a", "gpu-02-a"]),
        ("node[3,1]", ["node3", "node1"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[0-2]", ["n0", "n1", "n2"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
        ("rack[1-2]node[01-02]", ["rack1node01", "rack1node02", "rack2node01", "rack2node02"]),
        ("a-b.example.org", ["a-b.example.org"]),
        (" n[1-2] ", ["n1", "n2"]),
        ("2001-x[1]", ["2001-x1"]),
    ],
)
def test_hosts(hostlist: str, hosts: list[str]) -> None:
    assert hosts_of(hostlist) == hosts


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ",", "a,", "a,,b", "n[1-3", "n1-3]", "n[]", "n[a-b]", "n[3-1]", "n[1-]"),
        *("n[[1]]", "a b", "n[1-9999999999]", "a[1-9999]b[1-9999]", "(null)n[x]"),
    ],
)
def test_what_is_no_list_of_hosts_is_empty(text: str) -> None:
    assert hosts_of(text) == []


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("8", [8]),
        ("2(x3),1", [2, 2, 2, 1]),
        ("1(x4)", [1, 1, 1, 1]),
        ("4,2(x2)", [4, 2, 2]),
        ("", []),
        ("2(x3", []),
        ("two", []),
        ("1(x99999999999)", []),
    ],
)
def test_tasks(text: str, counts: list[int]) -> None:
    assert tasks_on_nodes(text) == counts


@pytest.mark.parametrize(
    ("environ", "is_task"),
    [
        ({}, False),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, False),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967291"}, False),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967290"}, False),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}, True),
        ({"SLURM_PROCID": "3", "SLURM_STEPID": "12"}, True),
        ({"SLURM_STEP_ID": "1"}, False),
    ],
)
def test_only_a_task_of_srun_is_one(environ: dict[str, str], is_task: bool) -> None:
    assert is_task_of_srun(environ) == is_task
