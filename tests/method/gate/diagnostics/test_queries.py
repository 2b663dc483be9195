"""Who has read which validation reward, and that nobody reads the audit slice."""

from collections.abc import Iterable

import pytest
from method_records import tasks

from intraskill.method.errors import SplitError
from intraskill.method.gate.diagnostics.remeasure import QueryCount, audit_slice


def read(task_ids: Iterable[str], addresses: str = "xy") -> list[tuple[str, str]]:
    return [(task_id, address) for task_id in task_ids for address in addresses]


def test_a_reward_that_two_decisions_read_is_counted_once() -> None:
    count = QueryCount().after(read("ab", "xy")).after(read("ab", "xz"))
    assert (count.decisions, count.rewards, count.most) == (2, 6, 2)
    assert count.after(read("ab", "xy")).rewards == 6 != count.after(read("ab", "v")).rewards


def test_every_decision_is_counted_for_every_task_that_it_reads() -> None:
    count = QueryCount().after(read(["a", "b", "b"], "xy")).after(read(["b", "c"], "uvw"))
    assert (count.decisions, count.by_task, count.rewards, count.most) == (2, {"a": 1, "b": 2, "c": 1}, 10, 2)
    assert count.words() == "2 decisions read 10 different rewards of 3 validation tasks, none more than 2 times"
    assert QueryCount().words() == "no decision has read a validation reward"
    assert QueryCount().most == 0


def test_a_count_is_a_record_and_never_changes() -> None:
    before = QueryCount().after(read(["a"]))
    before.after(read(["a", "b"]))
    assert before.by_task == {"a": 1}


def test_the_audit_slice_is_what_no_decision_has_read() -> None:
    validation, audit = tasks(3), tasks(5, "audit")
    count = QueryCount().after(read([f"other-{task.id}" for task in validation]))
    assert audit_slice([*validation, *audit], count) == audit
    with pytest.raises(SplitError, match="online decisions have read audit tasks, 2: task-0000, task-0001"):
        audit_slice(audit, QueryCount().after(read(["task-0000", "task-0001"])))
    with pytest.raises(SplitError, match="there is no audit task"):
        audit_slice(validation, QueryCount())
