"""Several processes, on one machine or many: ``run`` starts them, ``group()`` connects them."""
