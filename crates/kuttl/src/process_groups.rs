//! Process groups of commands: the processes that a command starts end with its timeout, and with the run.
//!
//! A command leads a group of its own. What it leaves behind when it ends by itself goes on until the end of the run, since
//! later steps may use it, such as a `kubectl port-forward` in the background.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process, test_kill_process_group};
use setpoint_api::Clock;
use tokio::process::{Child, Command};

/// How often a group is checked after SIGTERM, and how many times before SIGKILL.
const POLL: Duration = Duration::from_millis(50);
const GRACE_POLLS: u32 = 100;

/// The groups of a run that may have processes. Clones share them. What is left when the last clone is dropped is killed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessGroups(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    groups: Vec<Group>,
    /// No more processes are started.
    is_closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    leader: Pid,
    /// The leader has ended and was waited for.
    has_ended: bool,
}

// === impl ProcessGroups ===

impl ProcessGroups {
    /// Starts a command as the leader of a new group. Returns its process with the id of the group.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<(Child, Pid)> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the run is ending"));
        }
        let child = command.process_group(0).spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let leader = leader.ok_or_else(|| io::Error::other("the command has no process"))?;
        state.groups.push(Group {
            leader,
            has_ended: false,
        });
        Ok((child, leader))
    }

    /// Records that the leader of a group has ended and was waited for.
    pub(crate) fn leader_ended(&self, leader: Pid) {
        let mut state = self.0.lock();
        for group in &mut state.groups {
            group.has_ended |= group.leader == leader;
        }
        state
            .groups
            .retain(|group| group.leader != leader || group.has_processes());
    }

    /// Ends the processes of one group: by SIGTERM, and after the grace period by SIGKILL.
    pub(crate) async fn end(&self, leader: Pid, clock: &dyn Clock) {
        self.end_where(|group| group.leader == leader, clock).await;
    }

    /// Ends the processes of all groups. No process can be started afterwards.
    pub(crate) async fn end_all(&self, clock: &dyn Clock) {
        self.0.lock().is_closed = true;
        self.end_where(|_| true, clock).await;
    }

    async fn end_where(&self, is_selected: impl Fn(&Group) -> bool, clock: &dyn Clock) {
        let selected = || -> Vec<Group> {
            let groups = &self.0.lock().groups;
            groups
                .iter()
                .copied()
                .filter(|group| is_selected(group))
                .collect()
        };
        selected().iter().for_each(|group| group.send(Signal::TERM));
        let mut polls = 0;
        while polls < GRACE_POLLS && selected().iter().any(Group::has_processes) {
            clock.sleep(POLL).await;
            polls += 1;
        }
        selected().iter().for_each(|group| group.send(Signal::KILL));
        self.0.lock().groups.retain(|group| !is_selected(group));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.groups.iter().for_each(|group| group.send(Signal::KILL));
    }
}

// === impl Group ===

impl Group {
    /// Whether a signal would reach a process of the group. The id of a leader that has ended is not given to another
    /// process as long as the group has processes, so a process of this id is of no concern here.
    fn has_processes(&self) -> bool {
        let is_reused = self.has_ended && test_kill_process(self.leader).is_ok();
        !is_reused && test_kill_process_group(self.leader).is_ok()
    }

    fn send(&self, signal: Signal) {
        if self.has_processes() {
            // It fails only if the last of them has ended meanwhile.
            let _ = kill_process_group(self.leader, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::pin::Pin;

    use jiff::Timestamp;
    use setpoint_api::SystemClock;

    use super::*;
    use crate::config;
    use crate::log::Logger;
    use crate::process::{self, CommandEnv};

    /// A clock on which time passes once a file exists.
    #[derive(Debug)]
    struct FileClock(PathBuf);

    impl Clock for FileClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
            Box::pin(until_exists(self.0.clone()))
        }
    }

    /// Waits for a condition, in at most a minute.
    async fn until(condition: impl Fn() -> bool) {
        for _ in 0..60_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if condition() {
                return;
            }
        }
        panic!("the condition never became true");
    }

    async fn until_exists(path: PathBuf) {
        until(|| path.exists()).await;
    }

    /// Starts a shell, and waits for its child. Returns the shell and the id of its group.
    async fn start(groups: &ProcessGroups, dir: &Path, script: &str) -> (Child, Pid) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(dir);
        let started = groups.spawn(&mut command).unwrap();
        until_exists(dir.join("ready")).await;
        started
    }

    /// The child of the shell.
    fn grandchild(dir: &Path) -> Pid {
        let id = std::fs::read_to_string(dir.join("id")).unwrap();
        Pid::from_raw(id.trim().parse().unwrap()).unwrap()
    }

    /// Waits until the child of the shell is gone, or is a zombie that its parent has not waited for.
    async fn until_grandchild_ended(dir: &Path) {
        let stat = format!("/proc/{}/stat", grandchild(dir).as_raw_nonzero());
        until(|| !std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "))).await;
    }

    /// The shell writes the id of its child, and then that it is there.
    const CHILD: &str = "sleep 1000 & echo $! > id; touch ready;";

    #[tokio::test]
    async fn a_command_ends_at_its_timeout_with_all_that_it_has_started() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(FileClock(dir.path().join("ready")));
        let env = CommandEnv {
            kubeconfig: PathBuf::new(),
            working_dir: dir.path().to_owned(),
            clock: clock.clone(),
            groups: ProcessGroups::default(),
        };
        let command = config::Command {
            script: format!("{CHILD} wait"),
            timeout: 1,
            ..config::Command::default()
        };
        let (commands, logger) = ([command], Logger::new(clock));
        let run = process::run_all(&env, &commands, ("default", dir.path()), 30, &logger);
        let error = run.await.unwrap_err().to_string();
        assert!(
            error.ends_with("exceeded 1 sec timeout, context deadline exceeded"),
            "{error}"
        );
        until_grandchild_ended(dir.path()).await;
        assert!(env.groups.0.lock().groups.is_empty());
    }

    #[tokio::test]
    async fn processes_that_ignore_the_signal_are_killed() {
        let (groups, dir) = (ProcessGroups::default(), tempfile::tempdir().unwrap());
        let script = format!("trap '' TERM; {CHILD} wait");
        let (mut child, leader) = start(&groups, dir.path(), &script).await;
        let clock = FileClock(dir.path().join("ready"));
        let (status, ()) = tokio::join!(child.wait(), groups.end(leader, &clock));
        assert!(!status.unwrap().success());
        until_grandchild_ended(dir.path()).await;
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_ends_with_the_run() {
        let (groups, dir) = (ProcessGroups::default(), tempfile::tempdir().unwrap());
        let (mut child, leader) = start(&groups, dir.path(), CHILD).await;
        assert!(child.wait().await.unwrap().success());
        groups.leader_ended(leader);
        assert!(test_kill_process(grandchild(dir.path())).is_ok());
        groups.end_all(&SystemClock::new()).await;
        until_grandchild_ended(dir.path()).await;
        let late = groups.spawn(&mut Command::new("true")).unwrap_err();
        assert_eq!(late.to_string(), "the run is ending");
    }

    #[tokio::test]
    async fn what_is_left_is_killed_with_the_runner() {
        let (groups, dir) = (ProcessGroups::default(), tempfile::tempdir().unwrap());
        start(&groups, dir.path(), &format!("{CHILD} wait")).await;
        drop(groups);
        until_grandchild_ended(dir.path()).await;
    }

    #[tokio::test]
    async fn a_command_without_children_leaves_no_group() {
        let groups = ProcessGroups::default();
        let (mut child, leader) = groups.spawn(&mut Command::new("true")).unwrap();
        child.wait().await.unwrap();
        groups.leader_ended(leader);
        assert!(groups.0.lock().groups.is_empty());
    }
}
