//! Memoization of values derived from the served APIs (discovery, OpenAPI): built on first use, and again once the APIs
//! change.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_strategy::Kinds;

use crate::aggregate::RemoteGroups;

/// The last value built, and the APIs it was built from.
#[derive(Debug)]
pub(crate) struct Memoized<T> {
    last: Mutex<Option<(ServedApis, Arc<T>)>>,
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
        let mut last = self.last.lock();
        if let Some((built_from, value)) = &*last
            && built_from.is_same(apis)
        {
            return value.clone();
        }
        let before = last.as_ref().map(|(_, value)| &**value);
        let value = Arc::new(update(apis, before));
        *last = Some((apis.clone(), value.clone()));
        value
    }
}

/// The same last value; each builds its next one itself.
impl<T> Clone for Memoized<T> {
    fn clone(&self) -> Self {
        Self {
            last: Mutex::new(self.last.lock().clone()),
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
        }
    }
}

#[cfg(test)]
mod tests {
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
}
