"""tare doctor: is this machine fit to measure on?"""

from tare.cli.options import JsonOption, print_json


def doctor(as_json: JsonOption = False) -> int:
    """Check whether this machine is fit to measure on.

    Reports devices, versions, rungs and sources of noise, and what to do about them.
    """
    from tare.commands.survey import survey
    from tare.measure.health import examine
    from tare.report.health import health_view
    from tare.report.lists import describe_rungs
    from tare.report.terminal import make_console

    probed = survey()
    checks = examine(probed.gpus)
    if as_json:
        print_json(
            {
                "devices": probed.devices,
                "environment": probed.environment,
                "rungs": describe_rungs(probed),
                "checks": checks,
            }
        )
    else:
        make_console().print(health_view(probed, checks))
    return 0
