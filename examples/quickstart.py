"""The first five minutes: a function becomes a tool, a job of it is made, run and read.

    python examples/quickstart.py

It charges a small bank of its own (`bank.py`), or the one at BANK_URL: there the invoice is charged once however often
this runs, for the key of the effect says what is paid. The database is TENURE_DATABASE_URL, else `tenure.db` here.
"""

import os

import httpx2
from bank import opened
from pydantic import BaseModel

from tenure import Tenure, ToolContext

app = Tenure()


class Receipt(BaseModel):
    charge_id: str
    amount: int


@app.tool(timeout="2m", max_attempts=5)
def charge(ctx: ToolContext, invoice: str, amount: int) -> Receipt:
    body = {"invoice": invoice, "amount": amount}
    answer = ctx.effect(
        "charge",
        lambda call: httpx2.post(os.environ["BANK_URL"], json=body, headers=call.headers),
        request=body,
        key=f"payment:{invoice}:capture",
        repeat="safe",
    )
    return Receipt(charge_id=answer["id"], amount=amount)


if __name__ == "__main__":
    with opened(), app.worker():  # in production: tenure worker app:app, on any number of machines
        print(charge.enqueue(invoice="A-17", amount=500).result(timeout="1m"))
