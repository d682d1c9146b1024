"""The density of sea water: the rational function of Jackett et al. (2006) in 25 terms of salinity (psu),
potential temperature (degrees Celsius) and pressure (decibar), with its derivatives."""

from typing import Any

A = (
    9.9984085444849347e2, 7.3471625860981584, -5.3211231792841769e-2, 3.6492439109814549e-4, 2.5880571023991390,
    -6.7168282786692355e-3, 1.9203202055760151e-3, 1.1798263740430364e-2, 9.8920219266399117e-8,
    4.6996642771754730e-6, -2.5862187075154352e-8, -3.2921414007960662e-12,
)  # fmt: skip
B = (
    1.0, 7.2815210113327091e-3, -4.4787265461983921e-5, 3.3851002965802430e-7, 1.3651202389758572e-10,
    1.7632126669040377e-3, -8.8066583251206474e-6, -1.8832689434804897e-10, 5.7463776745432097e-6,
    1.4716275472242334e-9, 6.7103246285651894e-6, -2.4461698007024582e-17, -9.1534417604289062e-18,
)  # fmt: skip


def density_slopes(s: Any, t: Any, p: Any) -> tuple[Any, Any, Any]:
    """Density (kg/m^3), and its derivatives by temperature and by salinity."""
    root = s.clamp(min=0).sqrt()
    t2 = t * t
    top = (
        A[0] + t * (A[1] + t * (A[2] + A[3] * t)) + s * (A[4] + A[5] * t + A[6] * s)
        + p * (A[7] + A[8] * t2 + A[9] * s + p * (A[10] + A[11] * t2))
    )  # fmt: skip
    bottom = (
        B[0] + t * (B[1] + t * (B[2] + t * (B[3] + t * B[4])))
        + s * (B[5] + t * (B[6] + B[7] * t2) + root * (B[8] + B[9] * t2))
        + p * (B[10] + p * t * (B[11] * t2 + B[12] * p))
    )  # fmt: skip
    top_t = A[1] + t * (2 * A[2] + 3 * A[3] * t) + A[5] * s + 2 * p * t * (A[8] + p * A[11])
    top_s = A[4] + A[5] * t + 2 * A[6] * s + p * A[9]
    bottom_t = (
        B[1] + t * (2 * B[2] + t * (3 * B[3] + 4 * B[4] * t))
        + s * (B[6] + 3 * B[7] * t2 + 2 * root * B[9] * t) + p * p * (3 * B[11] * t2 + B[12] * p)
    )  # fmt: skip
    bottom_s = B[5] + t * (B[6] + B[7] * t2) + 1.5 * root * (B[8] + B[9] * t2)
    density = top / bottom
    return density, (top_t - density * bottom_t) / bottom, (top_s - density * bottom_s) / bottom
