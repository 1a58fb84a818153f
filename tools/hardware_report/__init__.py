"""The steps of ``tools/gpu_report.py``, what they find, and how it is reported."""
