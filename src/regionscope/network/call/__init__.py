"""Running a user's model without side effects."""
