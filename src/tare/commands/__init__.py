"""What each verb of the command line does, from what the user asked for to what is shown: here all parts meet."""
