//! The `Audit-Id` of a request, which every response carries: the client's own, or a new one.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue, Response};
use uuid::{Builder, Uuid};

use crate::body::Body;

pub(crate) static AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Generates unique ids cheaply: random once, then counted.
#[derive(Debug)]
pub(crate) struct AuditIds {
    seed: u64,
    count: AtomicU64,
}

impl Default for AuditIds {
    fn default() -> Self {
        let (seed, start) = Uuid::new_v4().as_u64_pair();
        Self {
            seed,
            count: AtomicU64::new(start),
        }
    }
}

impl AuditIds {
    /// The id of a request with these headers.
    pub(crate) fn for_request(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(&AUDIT_ID) {
            Some(own) if !own.is_empty() => own.clone(),
            _ => self.fresh(),
        }
    }

    fn fresh(&self) -> HeaderValue {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&scatter(self.seed ^ count).to_be_bytes());
        bytes[8..].copy_from_slice(&count.to_be_bytes());
        let mut text = [0; 36];
        Builder::from_random_bytes(bytes)
            .into_uuid()
            .hyphenated()
            .encode_lower(&mut text);
        HeaderValue::from_bytes(&text).expect("hexadecimal digits and hyphens are valid in a header")
    }
}

/// Mixes the bits of a number, so that consecutive ids look unrelated.
fn scatter(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Sets the header of a response.
pub(crate) fn set(response: &mut Response<Body>, id: HeaderValue) {
    response.headers_mut().insert(&AUDIT_ID, id);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_callers_own_id_is_kept() {
        let mut headers = HeaderMap::new();
        headers.insert(&AUDIT_ID, HeaderValue::from_static("mine"));
        assert_eq!(AuditIds::default().for_request(&headers), "mine");
    }

    #[test]
    fn fresh_ids_are_unique() {
        let ids = AuditIds::default();
        let unique: HashSet<HeaderValue> = (0..1000).map(|_| ids.for_request(&HeaderMap::new())).collect();
        assert_eq!(unique.len(), 1000);
    }
}
