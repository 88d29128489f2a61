"""What may be shown: the one sanitizer, and the classification of what tools raise."""

from tenure.payload.failure import Failure, classify
from tenure.payload.policy import DEFAULT, Detector, Policy
from tenure.payload.sanitizer import sanitize, sanitize_text
from tenure.payload.strict import storable

__all__ = ["DEFAULT", "Detector", "Failure", "Policy", "classify", "sanitize", "sanitize_text", "storable"]
