"""What is known of a machine, typed, and how it is written down and read back."""
