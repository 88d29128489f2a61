"""A row of your own and a job in one transaction: the parcel is sent if and only if the order was committed.

    python examples/orders.py

`app.connection()` is a SQLAlchemy connection to the app's database. Your own Session, or a connection of psycopg or
sqlite3, serves as well: `enqueue` writes on it, and leaves commit and rollback to you.
"""

from sqlalchemy import text

from tenure import Tenure

app = Tenure()


@app.tool()
def ship(order_id: int, address: str) -> str:
    return f"order {order_id} went to {address}"


def place(order_id: int, address: str, stock: int) -> str | None:
    """Writes the order and its job; without stock both are undone. Returns the id of the job."""
    with app.connection() as connection:
        connection.execute(text("INSERT INTO orders VALUES (:id, :address)"), {"id": order_id, "address": address})
        job = app.enqueue(
            ship,
            {"order_id": order_id, "address": address},
            idempotency_key=f"order:{order_id}:ship",
            connection=connection,
        )
        if not stock:
            connection.rollback()
            return None
        connection.commit()
        return job.id


if __name__ == "__main__":
    with app.connection() as connection:
        connection.execute(text("DROP TABLE IF EXISTS orders"))
        connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY, address TEXT NOT NULL)"))
        connection.commit()
    placed = [place(1, "Riga", stock=3), place(2, "Oslo", stock=0)]
    with app.worker():
        for order_id, job_id in enumerate(placed, start=1):
            print(f"order {order_id}: {app.job(job_id).result('30s') if job_id else 'undone, and no job of it'}")
    with app.connection() as connection:
        print(f"orders kept: {connection.execute(text('SELECT count(*) FROM orders')).scalar_one()}")
