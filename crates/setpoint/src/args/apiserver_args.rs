//! The arguments of `setpoint apiserver`: those of `up` without nodes, controllers and scheduler.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::{ControllerFlags, NodeFlags, NodeLifecycleFlags, SchedulerFlags, Up};

/// Flags of `up` for components that this process does not run, besides those of their own lists.
const EXCLUDED: &[&str] = &["nodes", "controllers", "host_clusters"];

/// Serves the API of a cluster whose other components are processes of their own.
#[derive(Debug, Clone)]
pub(crate) struct Apiserver(pub Up);

impl Args for Apiserver {
    fn augment_args(command: Command) -> Command {
        hide_excluded(Up::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        hide_excluded(Up::augment_args_for_update(command))
    }
}

impl FromArgMatches for Apiserver {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        check_excluded(matches)?;
        Up::from_arg_matches(matches).map(Self::of)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        check_excluded(matches)?;
        self.0.update_from_arg_matches(matches)
    }
}

impl Apiserver {
    fn of(up: Up) -> Self {
        Self(Up {
            nodes: 0,
            controllers: vec!["none".to_owned()],
            is_kube_apiserver: true,
            ..up
        })
    }
}

/// The ids of the flags that this command does not have.
fn excluded() -> Vec<String> {
    let flags = [
        ControllerFlags::augment_args,
        NodeLifecycleFlags::augment_args,
        NodeFlags::augment_args,
        SchedulerFlags::augment_args,
    ];
    let of_components = flags.into_iter().flat_map(|augment| {
        let command = augment(Command::new("flags"));
        let ids = command
            .get_arguments()
            .map(|argument| argument.get_id().to_string());
        ids.collect::<Vec<_>>()
    });
    of_components
        .chain(EXCLUDED.iter().map(|id| (*id).to_owned()))
        .collect()
}

fn hide_excluded(command: Command) -> Command {
    let hide = |command: Command, id: String| command.mut_arg(id, |argument| argument.hide(true));
    excluded().into_iter().fold(command, hide)
}

/// An excluded flag is as unknown as any other that does not exist.
fn check_excluded(matches: &ArgMatches) -> Result<(), Error> {
    let is_set = |id: &String| matches.value_source(id) == Some(ValueSource::CommandLine);
    let Some(id) = excluded().into_iter().find(is_set) else {
        return Ok(());
    };
    let mut error = Error::new(ErrorKind::UnknownArgument);
    let flag = format!("--{}", id.replace('_', "-"));
    error.insert(ContextKind::InvalidArg, ContextValue::String(flag));
    Err(error)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Args;

    #[track_caller]
    fn check(line: &str, is_accepted: bool) {
        let words = ["setpoint", "apiserver"]
            .into_iter()
            .chain(line.split_whitespace());
        let parsed = Args::try_parse_from(words);
        assert_eq!(parsed.is_ok(), is_accepted, "{:?}", parsed.err());
    }

    /// CL9
    #[test]
    fn the_api_server_has_the_flags_of_up_without_those_of_other_components() {
        check(
            "--memory --event-ttl 2h --service-cluster-ip-range 10.1.0.0/16",
            true,
        );
        for line in [
            "--nodes 1",
            "--controllers *",
            "--runtime simulated",
            "--concurrent-job-syncs 3",
            "--node-monitor-period 1s",
            "--host-clusters",
        ] {
            check(line, false);
        }
    }
}
