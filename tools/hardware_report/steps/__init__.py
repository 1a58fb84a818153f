"""One module for each subject; ``hardware_report/plan.py`` lists the steps."""
