"""Workers: processes, or parts of one, that claim jobs and run tools."""

from tenure.worker.worker import Lifespan, Worker

__all__ = ["Lifespan", "Worker"]
