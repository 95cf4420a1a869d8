"""Climb from one vector to attention, rung by rung: what each step gains, by sentence length."""
