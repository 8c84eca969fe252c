"""What every command is made of: its arguments, the place that it works on, and its output."""
