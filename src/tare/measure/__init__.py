"""What reads time, memory and the machine inside the measured process, and around it."""
