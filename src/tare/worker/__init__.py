"""The measured process, and the other processes that a case needs: each takes one job, answers, and ends."""
