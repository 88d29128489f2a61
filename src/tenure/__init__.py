"""A durable runtime for AI agents: requests, plans, permissions, tool calls and events that survive a restart."""

__version__ = "0.1.0"
