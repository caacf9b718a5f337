"""The lab: training, disk and time live here and in no lower layer."""
