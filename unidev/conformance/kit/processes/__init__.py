"""What checks run in processes of their own: workers, forks, and verbs that find no memory."""
