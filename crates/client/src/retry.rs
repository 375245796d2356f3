//! Retrying updates after a conflict. No client does so by itself: the caller decides whether its change still makes sense
//! on the newest version of the object.

use std::future::Future;

use setpoint_api::Status;

/// Runs `attempt` until it succeeds, fails by something other than a conflict, or has been tried `times` times.
///
/// Each attempt must read the object again, change it and write it. The last conflict is returned.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let maps = cluster.client("me").namespaced::<k8s_openapi::api::core::v1::ConfigMap>("default");
/// # maps.create(&setpoint_testkit::config_map("a", "k", "v")).await?;
/// use setpoint_client::retry_on_conflict;
///
/// let touched = retry_on_conflict(10, async || {
///     let mut map = maps.get("a").await?.to_owned()?;
///     map.metadata.labels.get_or_insert_default().insert("touched".to_owned(), "yes".to_owned());
///     maps.update(&map).await
/// });
/// assert_eq!(touched.await?.label("touched"), Some("yes"));
/// # Ok(())
/// # }
/// ```
pub async fn retry_on_conflict<T, F>(times: usize, mut attempt: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut tried = 1;
    loop {
        match attempt().await {
            Err(status) if status.is_conflict() && tried < times => tried += 1,
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::GroupResource;

    use super::*;

    fn conflict() -> Status {
        Status::modified(&GroupResource::new("", "pods"), "web")
    }

    /// OC5: checks how often an attempt with these outcomes runs, and the result.
    #[track_caller]
    fn check(times: usize, outcomes: &[Result<u8, Status>], expected: (usize, Result<u8, &str>)) {
        let mut tried = 0;
        let attempt = || {
            let outcome = outcomes[tried].clone();
            tried += 1;
            async { outcome }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(retry_on_conflict(times, attempt));
        let outcome = outcome
            .as_ref()
            .map(|value| *value)
            .map_err(|status| status.reason.as_str());
        assert_eq!((tried, outcome), expected);
    }

    #[test]
    fn oc5_success_ends_it() {
        check(10, &[Ok(1)], (1, Ok(1)));
        check(10, &[Err(conflict()), Err(conflict()), Ok(3)], (3, Ok(3)));
    }

    #[test]
    fn oc5_another_error_ends_it() {
        let gone = Status::not_found(&GroupResource::new("", "pods"), "web");
        check(10, &[Err(conflict()), Err(gone), Ok(1)], (2, Err("NotFound")));
    }

    #[test]
    fn oc5_it_gives_up_after_so_many_times() {
        let always = vec![Err(conflict()); 12];
        check(10, &always, (10, Err("Conflict")));
        check(1, &always, (1, Err("Conflict")));
    }
}
