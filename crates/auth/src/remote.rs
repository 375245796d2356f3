//! Remote servers that decide about requests: the interfaces through which webhooks and OpenID providers are called, and
//! the retries of webhook calls. The binary implements them by HTTP.

use std::time::Duration;

use setpoint_api::Clock;

use crate::maybe_future::BoxFuture;

/// Fetches the configuration and the keys of an OpenID provider.
pub trait Fetch: Send + Sync {
    /// The body of a GET of this URL, or why there is none.
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

/// Sends reviews to a webhook.
pub trait ReviewClient: Send + Sync {
    /// The webhook's response to a review, both in JSON.
    fn send(&self, review: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, WebhookError>>;
}

/// A failed webhook call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WebhookError {
    pub message: String,
    /// Whether the call may succeed if it is made again: the connection was reset, or the webhook requests a retry.
    pub transient: bool,
}

/// The number of calls that are made before the last error is returned.
const ATTEMPTS: u32 = 5;
/// The delay before the second call. Each later one is half as long again.
const INITIAL_DELAY: Duration = Duration::from_millis(500);

/// Sends a review, and again after a delay while the error is transient.
pub(crate) async fn send_with_retries(
    client: &dyn ReviewClient,
    clock: &dyn Clock,
    review: Vec<u8>,
) -> Result<Vec<u8>, WebhookError> {
    let mut delay = INITIAL_DELAY;
    for _ in 1..ATTEMPTS {
        match client.send(review.clone()).await {
            Err(error) if error.transient => {
                tracing::debug!(%error, "webhook call failed, retrying");
                clock.sleep(delay).await;
                delay += delay / 2;
            }
            outcome => return outcome,
        }
    }
    client.send(review).await
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use jiff::Timestamp;
    use parking_lot::Mutex;

    use super::*;
    use crate::fixtures::now;

    /// A clock that records the delays and waits for none.
    #[derive(Debug, Default)]
    struct DelayRecorder(Mutex<Vec<u128>>);

    impl Clock for DelayRecorder {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn sleep(&self, delay: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
            self.0.lock().push(delay.as_millis());
            Box::pin(std::future::ready(()))
        }
    }

    /// A webhook that fails this often before it responds.
    struct FailingWebhook {
        failures: Mutex<usize>,
        transient: bool,
    }

    impl ReviewClient for FailingWebhook {
        fn send(&self, _: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, WebhookError>> {
            let mut failures = self.failures.lock();
            let failed = *failures > 0;
            *failures = failures.saturating_sub(1);
            Box::pin(std::future::ready(match failed {
                false => Ok(Vec::new()),
                true => Err(WebhookError {
                    message: "down".to_owned(),
                    transient: self.transient,
                }),
            }))
        }
    }

    #[track_caller]
    fn check(failures: usize, transient: bool, succeeds: bool, delays: &[u128]) {
        let clock = DelayRecorder::default();
        let webhook = FailingWebhook {
            failures: Mutex::new(failures),
            transient,
        };
        let response = now(send_with_retries(&webhook, &clock, Vec::new()));
        assert_eq!(response.is_ok(), succeeds);
        assert_eq!(*clock.0.lock(), delays);
    }

    #[test]
    fn a_transient_error_is_retried_after_growing_delays() {
        check(0, true, true, &[]);
        check(2, true, true, &[500, 750]);
        check(4, true, true, &[500, 750, 1125, 1687]);
        check(5, true, false, &[500, 750, 1125, 1687]);
    }

    #[test]
    fn other_errors_are_final() {
        check(1, false, false, &[]);
    }
}
