//! `setpoint shell-operator start`. Flags, environment variables and defaults are upstream's.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use setpoint_api::{Clock, SystemClock, go_duration};
use setpoint_client::http::RateLimit;
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Http, Kubeconfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::webhook_args::WebhookArgs;
use crate::log::LogSettings;
use crate::operator::{Clients, Operator, Options};

pub(super) const DEBUG_SOCKET: &str = "/var/run/shell-operator/debug.socket";

/// The flags of `start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The directory of hooks.
    #[arg(long, env = "SHELL_OPERATOR_HOOKS_DIR", default_value = "/hooks")]
    hooks_dir: PathBuf,
    /// The directory of the files that hooks read and write.
    #[arg(long, env = "SHELL_OPERATOR_TMP_DIR", default_value = "/tmp/shell-operator")]
    tmp_dir: PathBuf,
    /// The address on which metrics are served.
    #[arg(long, env = "SHELL_OPERATOR_LISTEN_ADDRESS", default_value = "0.0.0.0")]
    listen_address: IpAddr,
    /// The port on which metrics are served.
    #[arg(long, env = "SHELL_OPERATOR_LISTEN_PORT", default_value_t = 9115)]
    listen_port: u16,
    /// The prefix of the names of metrics.
    #[arg(
        long,
        env = "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX",
        default_value = "shell_operator_"
    )]
    prometheus_metrics_prefix: String,
    /// The namespace of the operator, which is that of the services of its webhooks.
    #[arg(long, env = "SHELL_OPERATOR_NAMESPACE", default_value = "")]
    namespace: String,
    /// The context of the kubeconfig.
    #[arg(long, env = "KUBE_CONTEXT", default_value = "")]
    kube_context: String,
    /// The kubeconfig. Without it, the one that kubectl would use, or the service account of the pod.
    #[arg(long, env = "KUBE_CONFIG")]
    kube_config: Option<PathBuf>,
    /// The address of the API server, instead of that of the kubeconfig.
    #[arg(long, env = "KUBE_SERVER", default_value = "")]
    kube_server: String,
    /// Requests of monitors per second.
    #[arg(long, env = "KUBE_CLIENT_QPS", default_value_t = 5.0)]
    kube_client_qps: f64,
    /// Requests of monitors at once.
    #[arg(long, env = "KUBE_CLIENT_BURST", default_value_t = 10.0)]
    kube_client_burst: f64,
    /// Requests for operations of hooks per second.
    #[arg(long, env = "OBJECT_PATCHER_KUBE_CLIENT_QPS", default_value_t = 5.0)]
    object_patcher_kube_client_qps: f64,
    /// Requests for operations of hooks at once.
    #[arg(long, env = "OBJECT_PATCHER_KUBE_CLIENT_BURST", default_value_t = 10.0)]
    object_patcher_kube_client_burst: f64,
    /// How long a request for an operation of a hook may take.
    #[arg(long, env = "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT", default_value = "10s", value_parser = go_duration::parse)]
    object_patcher_kube_client_timeout: Duration,
    /// The level of the log: debug, info, warn or error.
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    log_level: String,
    /// The format of the log: json, text or color.
    #[arg(long, env = "LOG_TYPE", default_value = "text")]
    log_type: String,
    /// Log lines have no time.
    #[arg(long, env = "LOG_NO_TIME")]
    log_no_time: bool,
    /// Print JSON lines of hooks as they are, with the name of the hook added.
    #[arg(long, env = "LOG_PROXY_HOOK_JSON")]
    log_proxy_hook_json: bool,
    /// Keep the files of hooks.
    #[arg(long, env = "DEBUG_KEEP_TMP_FILES")]
    debug_keep_tmp_files: bool,
    /// The unix socket of the debug commands.
    #[arg(long, env = "DEBUG_UNIX_SOCKET", default_value = DEBUG_SOCKET)]
    debug_unix_socket: PathBuf,
    #[command(flatten)]
    webhooks: WebhookArgs,
}

pub(super) async fn run(args: StartArgs) -> Result<()> {
    let log = LogSettings::new(&args.log_level, &args.log_type, args.log_no_time);
    let log = Arc::new(log.map_err(|error| anyhow!(error))?);
    log.start();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let clients = args.clients(&clock)?;
    let options = Options {
        listen: Some(SocketAddr::new(args.listen_address, args.listen_port)),
        hooks_dir: args.hooks_dir,
        tmp_dir: args.tmp_dir,
        metrics_prefix: args.prometheus_metrics_prefix,
        debug_socket: Some(args.debug_unix_socket),
        keep_tmp_files: args.debug_keep_tmp_files,
        proxy_hook_json: args.log_proxy_hook_json,
        webhooks: args.webhooks.into_options(args.namespace),
        log,
    };
    let stop = CancellationToken::new();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let signals = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("shutdown begin");
        stop.cancel();
        std::future::pending::<()>().await;
    };
    let operate = async {
        let operator = Operator::load(options, clients, clock).await?;
        tracing::info!("start shell-operator");
        anyhow::Ok(operator.run(stop.clone()).await?)
    };
    tokio::select! {
        () = signals => Ok(()),
        ended = operate => ended,
    }
}

impl StartArgs {
    fn clients(&self, clock: &Arc<dyn Clock>) -> Result<Clients> {
        let connection = self.connection()?;
        let http = |qps: f64, burst: f64| {
            let http = Http::with_clock(&connection, clock.clone())?;
            anyhow::Ok(http.with_rate_limit(RateLimit { qps, burst }))
        };
        Ok(Clients {
            monitors: http(self.kube_client_qps, self.kube_client_burst)?,
            patcher: http(
                self.object_patcher_kube_client_qps,
                self.object_patcher_kube_client_burst,
            )?,
            patcher_timeout: self.object_patcher_kube_client_timeout,
        })
    }

    fn connection(&self) -> Result<Connection> {
        let context = Some(self.kube_context.as_str()).filter(|context| !context.is_empty());
        let mut connection = match (&self.kube_config, context) {
            (None, None) => Connection::infer()?,
            (Some(path), context) => Kubeconfig::read(path)
                .with_context(|| format!("cannot read {}", path.display()))?
                .connection(context)?,
            (None, context) => {
                let (kubeconfig, home) = (std::env::var_os("KUBECONFIG"), std::env::var_os("HOME"));
                let home = home.map(PathBuf::from);
                let paths = Kubeconfig::paths(kubeconfig.as_deref(), home.as_deref());
                Kubeconfig::load(&paths)?.connection(context)?
            }
        };
        if !self.kube_server.is_empty() {
            self.kube_server.clone_into(&mut connection.server);
        }
        Ok(connection)
    }
}
