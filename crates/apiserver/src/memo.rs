//! Memoization of values derived from the served APIs (discovery, OpenAPI): built on first use, and again once the APIs
//! change.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::off_worker;
use setpoint_strategy::Kinds;

use crate::aggregate::RemoteGroups;

/// The last value built, and the APIs it was built from.
///
/// A build takes up to a second. It runs off the threads that serve everyone, and so do the callers that wait for it.
#[derive(Debug)]
pub(crate) struct Memoized<T> {
    /// Locked only to copy or to replace the value.
    last: Mutex<Option<(ServedApis, Arc<T>)>>,
    /// Locked during a build, before `last`.
    building: Mutex<()>,
}

/// The APIs served at one time, by this server and by aggregated API servers. Compared by identity.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServedApis {
    pub kinds: Arc<Kinds>,
    pub remote_groups: Arc<RemoteGroups>,
}

impl<T> Memoized<T> {
    /// The value for these APIs. Concurrent callers wait for one build.
    pub(crate) fn get_or_build(&self, apis: &ServedApis, build: impl FnOnce(&ServedApis) -> T) -> Arc<T> {
        self.get_or_update(apis, |apis, _| build(apis))
    }

    /// The value for these APIs, built with the help of the last one. Concurrent callers wait for one build.
    pub(crate) fn get_or_update(
        &self,
        apis: &ServedApis,
        update: impl FnOnce(&ServedApis, Option<&T>) -> T,
    ) -> Arc<T> {
        match self.find(apis) {
            Some(value) => value,
            None => off_worker(|| self.update(apis, update)),
        }
    }

    fn update(&self, apis: &ServedApis, update: impl FnOnce(&ServedApis, Option<&T>) -> T) -> Arc<T> {
        let _building = self.building.lock();
        if let Some(value) = self.find(apis) {
            return value;
        }
        let before = self.last.lock().as_ref().map(|(_, value)| value.clone());
        let value = Arc::new(update(apis, before.as_deref()));
        *self.last.lock() = Some((apis.clone(), value.clone()));
        value
    }

    /// The value, if it was built from these APIs.
    fn find(&self, apis: &ServedApis) -> Option<Arc<T>> {
        let last = self.last.lock();
        let (_, value) = last.as_ref().filter(|(built_from, _)| built_from.is_same(apis))?;
        Some(value.clone())
    }
}

/// The same last value; each builds its next one itself.
impl<T> Clone for Memoized<T> {
    fn clone(&self) -> Self {
        Self {
            last: Mutex::new(self.last.lock().clone()),
            building: Mutex::default(),
        }
    }
}

impl ServedApis {
    fn is_same(&self, other: &Self) -> bool {
        let (groups, others) = (&self.remote_groups, &other.remote_groups);
        let are_empty = groups.versions.is_empty() && others.versions.is_empty();
        Arc::ptr_eq(&self.kinds, &other.kinds) && (are_empty || Arc::ptr_eq(groups, others))
    }
}

impl<T> Default for Memoized<T> {
    fn default() -> Self {
        Self {
            last: Mutex::new(None),
            building: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    #[test]
    fn a_value_is_built_once_for_the_same_apis() {
        let (first, second) = (ServedApis::default(), ServedApis::default());
        let memoized = Memoized::default();
        let old = memoized.get_or_build(&first, |_| 1);
        assert_eq!(
            (
                *old,
                *memoized.get_or_build(&first, |_| 2),
                *memoized.get_or_build(&second, |_| 3)
            ),
            (1, 1, 3)
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_build_does_not_hold_up_the_only_worker() {
        let (started, is_started) = tokio::sync::oneshot::channel();
        let (finish, is_finished) = std::sync::mpsc::sync_channel(1);
        let memoized = Arc::new(Memoized::default());
        let mut tasks = JoinSet::new();
        let building = memoized.clone();
        tasks.spawn(async move {
            let value = building.get_or_build(&ServedApis::default(), |_| {
                started.send(()).unwrap();
                is_finished.recv_timeout(Duration::from_secs(30)).unwrap();
                1
            });
            *value
        });
        is_started.await.unwrap();
        tasks.spawn(async move { *memoized.get_or_build(&ServedApis::default(), |_| 2) });
        tasks.spawn(async move {
            finish.send(()).unwrap();
            3
        });
        let mut values = tasks.join_all().await;
        values.sort_unstable();
        assert_eq!(values, [1, 2, 3]);
    }
}
