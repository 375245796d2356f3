//! A shell with a few commands, which is all that a simulated container can execute: pure.

/// The result of a command: its exit code and its output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommandResult {
    pub(super) exit_code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// What a command reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandInput<'a> {
    pub(super) stdin: &'a str,
    pub(super) env: &'a [(String, String)],
}

/// The exit code of a command that does not exist.
const NOT_FOUND: i32 = 127;

/// Runs a command. A shell runs the lines of its argument, or of its standard input.
pub(super) fn run(command: &[String], input: CommandInput<'_>) -> CommandResult {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sh" | "/bin/sh" | "bash" | "/bin/bash" | "ash", "-c", script, ..] => run_script(script, input),
        ["sh" | "/bin/sh" | "bash" | "/bin/bash" | "ash", ..] => run_script(input.stdin, input),
        words => run_words(words, input),
    }
}

/// Runs the commands of a script one after the other, until one exits the shell.
fn run_script(script: &str, input: CommandInput<'_>) -> CommandResult {
    let mut all = CommandResult::default();
    let lines = script.split(['\n', ';']).map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["exit", rest @ ..] = words.as_slice() {
            let code = rest.first().and_then(|code| code.parse().ok());
            all.exit_code = code.unwrap_or(all.exit_code);
            return all;
        }
        let result = run_words(&words, input);
        all.exit_code = result.exit_code;
        all.stdout.push_str(&result.stdout);
        all.stderr.push_str(&result.stderr);
    }
    all
}

fn run_words(words: &[&str], input: CommandInput<'_>) -> CommandResult {
    let output = |stdout: String| CommandResult {
        stdout,
        ..CommandResult::default()
    };
    match words {
        [] | ["true" | "/bin/true" | "sleep", ..] => CommandResult::default(),
        ["false" | "/bin/false", ..] => CommandResult {
            exit_code: 1,
            ..CommandResult::default()
        },
        ["echo" | "/bin/echo", rest @ ..] => output(format!("{}\n", unquoted(&rest.join(" ")))),
        ["cat" | "/bin/cat"] => output(input.stdin.to_owned()),
        ["env" | "printenv"] => {
            let lines = input.env.iter().map(|(name, value)| format!("{name}={value}\n"));
            output(lines.collect())
        }
        ["hostname"] => {
            let host = input.env.iter().find(|(name, _)| name == "HOSTNAME");
            output(format!("{}\n", host.map_or("", |(_, host)| host.as_str())))
        }
        [name, ..] => CommandResult {
            exit_code: NOT_FOUND,
            stdout: String::new(),
            stderr: format!("sh: {name}: not found on a simulated node\n"),
        },
    }
}

/// The text without the quotes that a shell removes.
fn unquoted(text: &str) -> String {
    text.replace(['"', '\''], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &[&str], stdin: &str, expected: (i32, &str)) {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let env = [("A".to_owned(), "1".to_owned())];
        let result = run(&command, CommandInput { stdin, env: &env });
        assert_eq!((result.exit_code, result.stdout.as_str()), expected);
    }

    #[test]
    fn a_command_has_its_output_and_exit_code() {
        check(&["echo", "a", "b"], "", (0, "a b\n"));
        check(&["false"], "", (1, ""));
        check(&["cat"], "in", (0, "in"));
        check(&["env"], "", (0, "A=1\n"));
        check(&["tar", "xf", "-"], "", (NOT_FOUND, ""));
    }

    #[test]
    fn a_shell_runs_its_argument_or_its_input() {
        check(&["sh", "-c", "echo 'a'; exit 3; echo b"], "", (3, "a\n"));
        check(&["sh"], "echo a\nfalse\n", (1, "a\n"));
    }
}
