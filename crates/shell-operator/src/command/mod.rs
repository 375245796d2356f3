//! Commands of `setpoint shell-operator`.

mod start;
mod webhook_args;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use http::Method;

pub use start::StartArgs;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the hooks of a directory until interrupted.
    Start(Box<StartArgs>),
    /// Print the queues of a running operator.
    Queue {
        /// Which queues.
        #[command(subcommand)]
        command: QueueCommand,
    },
    /// Print the hooks of a running operator and their snapshots.
    Hook {
        /// What to print.
        #[command(subcommand)]
        command: HookCommand,
    },
    /// Print and set runtime parameters of a running operator.
    Config {
        /// What to do.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Send a request to the debug socket of a running operator.
    Raw {
        /// The path of the request.
        path: String,
        /// Where the operator is.
        #[command(flatten)]
        socket: SocketArgs,
    },
}

/// `queue`.
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Print the tasks of all queues.
    List {
        /// Print empty queues, too.
        #[arg(long, short = 'e')]
        show_empty: bool,
        /// Format and socket.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print the tasks of the main queue.
    Main {
        /// Format and socket.
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// `hook`.
#[derive(Debug, Subcommand)]
pub enum HookCommand {
    /// Print the names of the hooks.
    List {
        /// Format and socket.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print the objects of the bindings of a hook.
    Snapshot {
        /// The name of the hook.
        hook: String,
        /// Format and socket.
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the parameters.
    List {
        /// Format and socket.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Set a parameter.
    Set {
        /// The parameter, such as `log.level`.
        name: String,
        /// The value.
        value: String,
        /// Where the operator is.
        #[command(flatten)]
        socket: SocketArgs,
    },
}

/// The format of the output, and where the operator is.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// The format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    socket: SocketArgs,
}

/// Where the operator is.
#[derive(Debug, Args)]
pub struct SocketArgs {
    /// The unix socket of the operator.
    #[arg(long, env = "DEBUG_UNIX_SOCKET", default_value = start::DEBUG_SOCKET)]
    debug_unix_socket: PathBuf,
}

/// A format.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

/// Runs a command.
pub fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Start(args) => start::run(*args).await,
            Command::Queue { command } => queue(command).await,
            Command::Hook { command } => hook(command).await,
            Command::Config { command } => config(command).await,
            Command::Raw { path, socket } => print(&socket, Method::GET, &path).await,
        }
    })
}

async fn queue(command: QueueCommand) -> Result<()> {
    match command {
        QueueCommand::Main { output } => output.print("/queue/main", "").await,
        QueueCommand::List { show_empty, output } => {
            output
                .print("/queue/list", &format!("?showEmpty={show_empty}"))
                .await
        }
    }
}

async fn hook(command: HookCommand) -> Result<()> {
    match command {
        HookCommand::List { output } => output.print("/hook/list", "").await,
        HookCommand::Snapshot { hook, output } => output.print(&format!("/hook/{hook}/snapshots"), "").await,
    }
}

async fn config(command: ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::List { output } => output.print("/config/list", "").await,
        ConfigCommand::Set { name, value, socket } => {
            let path = format!("/config/set?name={name}&value={value}");
            print(&socket, Method::POST, &path).await
        }
    }
}

impl OutputArgs {
    async fn print(&self, path: &str, query: &str) -> Result<()> {
        let format = match self.output {
            Format::Text => "text",
            Format::Json => "json",
            Format::Yaml => "yaml",
        };
        print(&self.socket, Method::GET, &format!("{path}.{format}{query}")).await
    }
}

#[allow(clippy::print_stdout, reason = "a command prints to its user")]
async fn print(socket: &SocketArgs, method: Method, path: &str) -> Result<()> {
    let text = crate::http::request(&socket.debug_unix_socket, method, path).await?;
    println!("{}", text.trim_end());
    Ok(())
}
