"""The public face: an app with its tools, and handles to the jobs and turns that it makes."""

from tenure.app.app import Tenure
from tenure.app.handles import Job, Turn
from tenure.app.tool import Tool

__all__ = ["Job", "Tenure", "Tool", "Turn"]
