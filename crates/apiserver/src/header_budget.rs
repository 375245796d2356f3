//! Memory for the headers of requests that are being handled.
//!
//! As Go's server does, this one accepts a megabyte of headers. A client could hold that for every stream of every
//! connection, before it is authenticated; so the part of it that few requests need is limited for all connections
//! together.

use std::sync::Arc;

use http::Request;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The size of the largest list of headers of a request.
pub(crate) const MAX_HEADER_LIST_BYTES: u32 = 1 << 20;
/// The size up to which headers are not counted.
const UNCOUNTED_BYTES: usize = 16 << 10;
/// The size of all larger lists of headers together.
const BUDGET_BYTES: usize = 64 << 20;
/// The overhead of one header, as HTTP/2 counts it (RFC 9113, section 6.5.2).
const HEADER_OVERHEAD: usize = 32;

/// The memory for large lists of headers, shared by all connections.
#[derive(Debug)]
pub(crate) struct HeaderBudget(Arc<Semaphore>);

/// Part of a budget, held until the request is handled; none if its headers are small.
pub(crate) type Reservation = Option<OwnedSemaphorePermit>;

/// The budget has no room for the headers of another request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BudgetError;

impl Default for HeaderBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_BYTES)))
    }
}

impl HeaderBudget {
    /// Reserves memory for the headers of a request, without waiting for it.
    pub(crate) fn reserve<B>(&self, request: &Request<B>) -> Result<Reservation, BudgetError> {
        match u32::try_from(header_list_bytes(request)).map_err(|_| BudgetError)? {
            bytes if bytes as usize <= UNCOUNTED_BYTES => Ok(None),
            bytes => {
                let reserved = self.0.clone().try_acquire_many_owned(bytes);
                reserved.map(Some).map_err(|_| BudgetError)
            }
        }
    }
}

fn header_list_bytes<B>(request: &Request<B>) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        name.as_str().len() + value.len() + HEADER_OVERHEAD
    };
    uri + request.headers().iter().map(header).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(header_bytes: usize) -> Request<()> {
        Request::builder()
            .header("x", "v".repeat(header_bytes))
            .body(())
            .unwrap()
    }

    #[test]
    fn large_headers_are_limited_together() {
        let budget = HeaderBudget::default();
        let large = request(1 << 20);
        let mut reserved = Vec::new();
        while let Ok(reservation) = budget.reserve(&large) {
            assert!(reservation.is_some());
            reserved.push(reservation);
        }
        assert_eq!(reserved.len(), 63);
        assert!(
            matches!(budget.reserve(&request(100)), Ok(None)),
            "small headers need no budget"
        );
        reserved.pop();
        assert!(budget.reserve(&large).is_ok());
    }
}
