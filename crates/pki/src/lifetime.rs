//! When certificates are renewed.

use jiff::Timestamp;
use setpoint_x509::Certificate;

/// Whether this share of a certificate's validity has passed.
pub(crate) fn has_passed(certificate: &Certificate<'_>, share: (i64, i64), now: Timestamp) -> bool {
    let (from, until) = (
        certificate.not_before.as_second(),
        certificate.not_after.as_second(),
    );
    now.as_second() >= from + (until - from) * share.0 / share.1
}

/// Whether a server or client certificate is renewed now: two thirds of its validity have passed, or it is not valid yet
/// because the clock was set back. `not_after` is the end of the new certificate, which must be later: a certificate
/// cannot outlive its CA.
pub(crate) fn is_due(certificate: &Certificate<'_>, not_after: Timestamp, now: Timestamp) -> bool {
    let is_early = now < certificate.not_before;
    is_early || (has_passed(certificate, (2, 3), now) && certificate.not_after < not_after)
}
