"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A test never fails for having taken long: these machines are shared.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
