"""A worker is killed after the bank was charged, before it could write that down. The next one does not charge again.

    python examples/killed.py

Worker 1 is a process of its own. It gets SIGKILL while it waits for the bank's answer. Its lease runs out after six
seconds, worker 2 claims the job, and sends the request again under the same key and a higher fence.
"""

import os
import signal
import subprocess
import sys

import httpx2
from bank import opened

from tenure import Tenure, ToolContext

app = Tenure()


@app.tool(lease="6s", heartbeat="1s", margin="2s")
def pay(ctx: ToolContext, invoice: str, amount: int) -> str:
    body = {"invoice": invoice, "amount": amount}
    answer = ctx.effect(
        "pay",
        lambda call: httpx2.post(os.environ["BANK_URL"], json=body, headers=call.headers, timeout=60),
        request=body,
        repeat="safe",
    )
    return f"{answer['id']} by attempt {ctx.attempt} under token {ctx.fencing_token}"


def main() -> None:
    with opened(lost=1) as bank:
        assert bank is not None, "this example needs a bank of its own: unset BANK_URL"
        job = pay.enqueue(invoice="A-17", amount=500)
        worker = subprocess.Popen([sys.executable, __file__, "worker"])
        assert bank.wait_for(requests=1, seconds=30), "worker 1 did not come to the bank"
        worker.send_signal(signal.SIGKILL)
        print(f"worker 1 ended with {worker.wait()}; the bank has {len(bank.book)} charge, the job is {job.status}")
        with app.worker():
            print(f"worker 2: {job.result(timeout='1m')}")
        print(f"the bank heard {bank.heard} requests and made {len(bank.book)} charge")


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        with app.worker():
            signal.pause()
    main()
