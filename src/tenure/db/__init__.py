"""The only floor that knows that there are two databases."""
