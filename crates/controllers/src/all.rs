//! The list of controllers, and how one is picked from it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use setpoint_runtime::{Context, Error};
use tokio_util::sync::CancellationToken;

use crate::resources::Served;
use crate::{garbage_collector, namespace, replica_set, service_account};

/// What the controllers are told when they start.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Everything that is served, for those that look after objects of every kind.
    pub resources: Served,
}

/// A controller by its name.
#[derive(Clone, Copy)]
pub struct Named {
    /// As kube-controller-manager has it.
    pub name: &'static str,
    start: fn(Context, Config, CancellationToken) -> Running,
}

/// A controller that runs until stopped.
pub type Running = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A list of controllers names one that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {0:?}")]
pub struct Unknown(pub String);

/// All controllers.
pub fn all() -> [Named; 4] {
    [
        Named {
            name: garbage_collector::NAME,
            start: |context, config, stop| Box::pin(garbage_collector::run(context, config.resources, stop)),
        },
        Named {
            name: namespace::NAME,
            start: |context, config, stop| Box::pin(namespace::run(context, config.resources, stop)),
        },
        Named {
            name: replica_set::NAME,
            start: |context, _, stop| Box::pin(replica_set::run(context, stop)),
        },
        Named {
            name: service_account::NAME,
            start: |context, _, stop| Box::pin(service_account::run(context, stop)),
        },
    ]
}

/// The controllers that a list names: `*` is all of them, `name` one, `-name` not this one. The first that fits
/// counts. Names may be given without `-controller`.
pub fn select(list: &[&str]) -> Result<Vec<Named>, Unknown> {
    let all = all();
    for word in list.iter().filter(|word| **word != "*") {
        let name = word.strip_prefix('-').unwrap_or(word);
        if !all.iter().any(|one| one.is_called(name)) {
            return Err(Unknown(name.to_owned()));
        }
    }
    Ok(all.into_iter().filter(|one| one.is_selected(list)).collect())
}

impl Named {
    pub(crate) fn new(name: &'static str, start: fn(Context, Config, CancellationToken) -> Running) -> Self {
        Self { name, start }
    }

    /// Runs it until stopped.
    pub fn run(&self, context: Context, config: Config, stop: CancellationToken) -> Running {
        (self.start)(context, config, stop)
    }

    /// Whether this is its name, with or without `-controller`.
    pub fn is_called(&self, name: &str) -> bool {
        name == self.name || Some(name) == self.name.strip_suffix("-controller")
    }

    fn is_selected(&self, list: &[&str]) -> bool {
        let means = |word: &&&str| self.is_called(word.strip_prefix('-').unwrap_or(word));
        match list.iter().find(means) {
            Some(word) => !word.starts_with('-'),
            None => list.contains(&"*"),
        }
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &[&str], expected: &[&str]) {
        let names: Vec<&str> = select(list).unwrap().iter().map(|one| one.name).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_list_names_controllers_with_or_without_the_suffix() {
        check(&["replicaset"], &[replica_set::NAME]);
        check(&["replicaset-controller"], &[replica_set::NAME]);
        check(&[], &[]);
    }

    #[test]
    fn a_star_is_all_and_a_minus_takes_one_away() {
        check(
            &["*", "-garbage-collector", "-namespace-controller"],
            &[replica_set::NAME, service_account::NAME],
        );
    }

    #[test]
    fn an_unknown_name_is_told() {
        assert_eq!(
            select(&["*", "-nope"]).unwrap_err().to_string(),
            "unknown controller \"nope\""
        );
    }
}
