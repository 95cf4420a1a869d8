"""The record of a run and its schema, and a ledger of published figures."""
