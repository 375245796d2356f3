//! Commands of steps and suites: their environment, their arguments, and how they are run.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use setpoint_api::Clock;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;

use crate::config::Command;
use crate::log::Logger;
use crate::process_groups::ProcessGroups;

/// What is kept of each output of a command.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// What the commands of a run share.
#[derive(Debug, Clone)]
pub(crate) struct CommandEnv {
    pub(crate) kubeconfig: PathBuf,
    /// Its `bin` comes first in `PATH`.
    pub(crate) working_dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) groups: ProcessGroups,
}

/// Runs commands in order, until one fails. Those in the background go on until the end of the run.
pub(crate) async fn run_all(
    env: &CommandEnv,
    commands: &[Command],
    (namespace, dir): (&str, &Path),
    timeout: u64,
    logger: &Logger,
) -> Result<()> {
    for (i, command) in commands.iter().enumerate() {
        if let Err(error) = run(env, command, (namespace, dir), timeout, logger).await {
            let left = commands.len() - i - 1;
            if left > 0 {
                logger.log(format!("command failure, skipping {left} additional commands"));
            }
            return Err(error);
        }
    }
    Ok(())
}

async fn run(
    env: &CommandEnv,
    command: &Command,
    (namespace, dir): (&str, &Path),
    timeout: u64,
    logger: &Logger,
) -> Result<()> {
    let variables = env.variables(namespace);
    let words = arguments(command, namespace, &variables)?;
    logger.log(format!("running command: [{}]", words.join(" ")));
    let mut process = tokio::process::Command::new(&words[0]);
    process.args(&words[1..]).current_dir(dir).envs(variables);
    process.stdin(Stdio::null());
    let text = command.text();
    let failed = |error: io::Error| anyhow!("command {text:?} failed, {error}");
    if command.background {
        process.stdout(Stdio::null()).stderr(Stdio::null());
        return env.groups.spawn(&mut process).map(drop).map_err(failed);
    }
    let timeout = match command.timeout {
        0 => timeout,
        seconds => u64::try_from(seconds).unwrap_or(0),
    };
    process.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = env.output(&mut process, timeout).await.map_err(failed)?;
    let Some(output) = output else {
        bail!("command {text:?} exceeded {timeout} sec timeout, context deadline exceeded");
    };
    if !command.skip_log_output {
        logger.log(String::from_utf8_lossy(&output.stdout));
        logger.log(String::from_utf8_lossy(&output.stderr));
    }
    match output.status.success() || command.ignore_failure {
        true => Ok(()),
        false => Err(anyhow!("command {text:?} failed, {}", output.status)),
    }
}

/// Waits for the end of a process. Of each of its outputs, what is above the limit is dropped.
async fn limited_output(child: &mut Child) -> io::Result<Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (status, stdout, stderr) =
        tokio::try_join!(child.wait(), read_limited(stdout), read_limited(stderr))?;
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}

async fn read_limited(output: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let Some(mut output) = output else {
        return Ok(Vec::new());
    };
    let mut bytes = Vec::new();
    (&mut output)
        .take(MAX_OUTPUT_BYTES)
        .read_to_end(&mut bytes)
        .await?;
    if tokio::io::copy(&mut output, &mut tokio::io::sink()).await? > 0 {
        bytes.extend_from_slice(b"\n(truncated)\n");
    }
    Ok(bytes)
}

impl CommandEnv {
    /// The output of a process that ends within so many seconds. Zero is no limit. After that it is ended, with all
    /// processes that it has started.
    async fn output(
        &self,
        process: &mut tokio::process::Command,
        seconds: u64,
    ) -> io::Result<Option<Output>> {
        let (mut child, leader) = self.groups.spawn(process)?;
        let timeout = async {
            match seconds {
                0 => std::future::pending().await,
                seconds => self.clock.sleep(Duration::from_secs(seconds)).await,
            }
        };
        let output = tokio::select! {
            output = limited_output(&mut child) => output.map(Some),
            () = timeout => {
                let (status, ()) = tokio::join!(child.wait(), self.groups.end(leader, &*self.clock));
                status.map(|_| None)
            }
        };
        if output.is_ok() {
            self.groups.leader_ended(leader);
        }
        output
    }

    fn variables(&self, namespace: &str) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.working_dir.join("bin");
        vec![
            ("NAMESPACE".to_owned(), namespace.to_owned()),
            ("KUBECONFIG".to_owned(), self.kubeconfig.display().to_string()),
            ("PATH".to_owned(), format!("{}:{path}", bin.display())),
        ]
    }
}

impl Command {
    fn text(&self) -> &str {
        match self.script.is_empty() {
            true => &self.command,
            false => &self.script,
        }
    }
}

/// The program and its arguments.
fn arguments(command: &Command, namespace: &str, variables: &[(String, String)]) -> Result<Vec<String>> {
    match (command.command.is_empty(), command.script.is_empty()) {
        (false, false) => bail!("command and script can not be set in the same configuration"),
        (true, true) => bail!("command or script must be set"),
        (true, false) if command.namespaced => {
            bail!("script can not used 'namespaced', use the $NAMESPACE environment variable instead")
        }
        (true, false) => return Ok(vec!["sh".to_owned(), "-c".to_owned(), command.script.clone()]),
        (false, true) => {}
    }
    let lookup = |name: &str| {
        let own = variables.iter().find(|(own, _)| own == name);
        own.map(|(_, value)| value.clone())
            .or_else(|| std::env::var(name).ok())
            .unwrap_or_default()
    };
    let mut words = split(&expand(&command.command, lookup))?;
    if words.is_empty() {
        bail!("command or script must be set");
    }
    let names_namespace = |word: &String| {
        let has_value =
            word.starts_with("--namespace=") || (word.starts_with("-n") && !word.starts_with("--"));
        word == "--namespace" || has_value
    };
    if command.namespaced && !words.iter().any(names_namespace) {
        words.extend(["--namespace".to_owned(), namespace.to_owned()]);
    }
    Ok(words)
}

/// Replaces `$NAME` and `${NAME}`. `$$` is a dollar sign.
pub(crate) fn expand(text: &str, lookup: impl Fn(&str) -> String) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            expanded.push_str(&lookup(name));
            rest = after;
        } else {
            let end = rest.bytes().take_while(|byte| is_name(*byte)).count();
            match end {
                0 => expanded.push('$'),
                _ => expanded.push_str(&lookup(&rest[..end])),
            }
            rest = &rest[end..];
        }
    }
    expanded + rest
}

/// Splits a command line as a shell does: by white space, with quotes and backslashes.
fn split(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(char),
            (_, '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(_), _) => word.get_or_insert_default().push(char),
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, _) if char.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(char),
        }
    }
    if quote.is_some() {
        bail!("EOF found when expecting closing quote");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, namespaced: bool, expected: &[&str]) {
        let command = Command {
            command: line.to_owned(),
            namespaced,
            ..Command::default()
        };
        let variables = [("NAMESPACE".to_owned(), "ns1".to_owned())];
        assert_eq!(arguments(&command, "ns1", &variables).unwrap(), expected);
    }

    #[test]
    fn a_command_line_is_split_as_by_a_shell() {
        check(
            r#"a -p  X="f g" 'h\i' j\ k"#,
            false,
            &["a", "-p", "X=f g", "h\\i", "j k"],
        );
    }

    #[test]
    fn variables_are_expanded() {
        check(
            "a $NAMESPACE ${NAMESPACE}x $$NAMESPACE",
            false,
            &["a", "ns1", "ns1x", "$NAMESPACE"],
        );
    }

    #[test]
    fn the_namespace_is_added_unless_there_is_one() {
        check(
            "kubectl get pods",
            true,
            &["kubectl", "get", "pods", "--namespace", "ns1"],
        );
        check(
            "kubectl get pods -n a",
            true,
            &["kubectl", "get", "pods", "-n", "a"],
        );
        check(
            "kubectl get pods --namespace=a",
            true,
            &["kubectl", "get", "pods", "--namespace=a"],
        );
    }

    #[tokio::test]
    async fn the_output_of_a_command_is_limited() {
        let mut process = tokio::process::Command::new("head");
        process
            .args(["-c", "9000000", "/dev/zero"])
            .stdout(Stdio::piped());
        let output = limited_output(&mut process.spawn().unwrap()).await.unwrap();
        assert!(output.status.success());
        let kept = MAX_OUTPUT_BYTES as usize;
        assert_eq!(&output.stdout[kept..], b"\n(truncated)\n");
    }
}
