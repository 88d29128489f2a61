"""A step that needs a person. Run it twice: the question survives the end of everything in between.

    python examples/approval.py          plans, deletes nothing, asks, and ends
    python examples/approval.py          finds the question, answers it, and the rows are deleted

Nothing waits between the two: no process, thread, connection or lease. The question is a row of the database.
"""

import getpass

from tenure import Final, From, Step, Steps, Tenure, TurnView

app = Tenure()


@app.tool(mode="read")
def count_rows(table: str) -> int:
    """Looks, so nobody needs to be asked."""
    return len(table) * 10


@app.tool(approval="required", writes="tables")
def delete_rows(table: str, limit: int) -> str:
    """Asks a person first, and shows exactly the arguments that will run."""
    return f"deleted {limit} rows of {table}"


@app.recipe("clean")
def clean(turn: TurnView) -> Steps | Final:
    """Two steps; the second takes what the first gave. When both are done, their outputs are the answer."""
    return Steps(
        Step("count", count_rows, table=turn.input),
        Step("delete", delete_rows, table=turn.input, limit=From("count")),
    )


def ask() -> None:
    turn = app.submit("tmp_a", session_id="cleaning", command="clean", project_id="shop")
    with app.worker():
        turn.wait("30s", for_approval=True)
    (approval,) = turn.pending()
    print(f"asked {approval.approval_id}: may I {approval.tools[0]} {approval.items[0]['arguments']}?")


def answer(approval_id: str, turn_id: str) -> None:
    decided = app.approve(approval_id, by=getpass.getuser(), reason="checked by hand")
    print(f"{decided.status} by {decided.decided_by}")
    with app.worker():
        print(app.turn(turn_id).result("30s"))


if __name__ == "__main__":
    waiting = app.pending()
    answer(waiting[0].approval_id, waiting[0].turn_id) if waiting else ask()
