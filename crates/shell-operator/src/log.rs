//! Log of the operator and its hooks: text, coloured text or JSON lines, as the flags select.

mod format;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Map, Value};
use tracing::Level;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use format::LineFormat;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogType {
    /// `time level message key=value`.
    Text,
    /// The same with colours.
    Color,
    /// One JSON object for each line.
    Json,
}

/// The level and the format, which the debug commands can change.
#[derive(Debug)]
pub struct LogSettings {
    level: AtomicU8,
    log_type: AtomicU8,
    no_time: bool,
}

/// Labels of the log lines about one run of a hook.
#[derive(Debug, Clone)]
pub(crate) struct HookLabels {
    pub(crate) hook: String,
    pub(crate) binding: String,
    /// The type of the binding.
    pub(crate) event: &'static str,
    pub(crate) queue: String,
    /// Whether JSON lines of the hook are printed as they are, with the labels added.
    pub(crate) proxy_json: bool,
}

/// The target of lines that are printed as they are.
const PROXY_TARGET: &str = "proxy_hook_json";

// === impl LogSettings ===

impl LogSettings {
    /// Settings by their names in flags.
    pub fn new(level: &str, log_type: &str, no_time: bool) -> Result<Self, String> {
        let settings = Self {
            level: AtomicU8::default(),
            log_type: AtomicU8::default(),
            no_time,
        };
        settings.set_level(level)?;
        settings.set_type(log_type)?;
        Ok(settings)
    }

    /// Starts the process log. It can be started once.
    pub fn start(self: &Arc<Self>) {
        let settings = self.clone();
        let is_enabled = dynamic_filter_fn(move |metadata, _| {
            let is_own = metadata.target().starts_with("setpoint") || metadata.target() == PROXY_TARGET;
            let level = if is_own { settings.level() } else { Level::WARN };
            *metadata.level() <= level
        });
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .event_format(LineFormat::new(self.clone()));
        tracing_subscriber::registry()
            .with(lines.with_filter(is_enabled))
            .init();
    }

    /// Sets the level: `debug`, `info`, `warn` or `error`.
    pub fn set_level(&self, level: &str) -> Result<(), String> {
        let parsed = Level::from_str(level).map_err(|_| format!("unknown log level {level:?}"))?;
        self.level.store(
            LEVELS
                .iter()
                .position(|own| *own == parsed)
                .map_or(0, |at| at as u8),
            Ordering::Relaxed,
        );
        Ok(())
    }

    /// Sets the format: `text`, `color` or `json`.
    pub fn set_type(&self, log_type: &str) -> Result<(), String> {
        let at = TYPES.iter().position(|(name, _)| *name == log_type);
        let at = at.ok_or_else(|| format!("unknown log type {log_type:?}: expected json, text or color"))?;
        self.log_type.store(at as u8, Ordering::Relaxed);
        Ok(())
    }

    /// The level.
    pub fn level(&self) -> Level {
        LEVELS[usize::from(self.level.load(Ordering::Relaxed))]
    }

    /// The format.
    pub fn log_type(&self) -> LogType {
        TYPES[usize::from(self.log_type.load(Ordering::Relaxed))].1
    }

    /// The name of the format.
    pub fn type_name(&self) -> &'static str {
        TYPES[usize::from(self.log_type.load(Ordering::Relaxed))].0
    }
}

const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
const TYPES: [(&str, LogType); 3] = [
    ("text", LogType::Text),
    ("color", LogType::Color),
    ("json", LogType::Json),
];

// === impl HookLabels ===

impl HookLabels {
    pub(crate) fn info(&self, message: &str) {
        let Self {
            hook,
            binding,
            event,
            queue,
            ..
        } = self;
        tracing::info!(hook, binding, event, task = "HookRun", queue, "{message}");
    }

    pub(crate) fn warn(&self, message: &str) {
        let Self {
            hook,
            binding,
            event,
            queue,
            ..
        } = self;
        tracing::warn!(hook, binding, event, task = "HookRun", queue, "{message}");
    }

    pub(crate) fn error(&self, message: &str, error: &str, failures: u32) {
        let Self {
            hook,
            binding,
            event,
            queue,
            ..
        } = self;
        tracing::error!(
            hook,
            binding,
            event,
            task = "HookRun",
            queue,
            failures,
            error,
            "{message}"
        );
    }

    /// Logs a line of the hook's output. A line that is a JSON object has its own level, message and fields.
    pub(crate) fn output(&self, output: &'static str, line: &str) {
        let fields = match line.starts_with('{') {
            true => serde_json::from_str::<Map<String, Value>>(line).ok(),
            false => None,
        };
        match fields {
            Some(fields) if self.proxy_json => self.proxy(fields),
            Some(fields) => self.structured(output, fields),
            None => self.line(Level::INFO, output, line, ""),
        }
    }

    /// Prints a JSON line of the hook with the labels added.
    fn proxy(&self, mut fields: Map<String, Value>) {
        let labels = [
            ("hook", self.hook.as_str()),
            ("binding", &self.binding),
            ("event", self.event),
            ("task", "HookRun"),
            ("queue", &self.queue),
        ];
        for (name, value) in labels {
            fields.insert(name.to_owned(), value.into());
        }
        let line = Value::Object(fields).to_string();
        tracing::error!(target: PROXY_TARGET, "{line}");
    }

    fn structured(&self, output: &'static str, mut fields: Map<String, Value>) {
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        let level = text(fields.remove("level")).and_then(|level| level.parse().ok());
        let message = text(fields.remove("msg")).unwrap_or_else(|| "hook result".to_owned());
        fields.remove("time");
        let fields: Map<String, Value> = fields
            .into_iter()
            .map(|(name, value)| (format!("hook_{name}"), value))
            .collect();
        let fields = Value::Object(fields).to_string();
        self.line(level.unwrap_or(Level::INFO), output, &message, &fields);
    }

    /// `json_fields` is a JSON object whose fields become those of the line.
    fn line(&self, level: Level, output: &'static str, message: &str, json_fields: &str) {
        let Self {
            hook,
            binding,
            event,
            queue,
            ..
        } = self;
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    hook,
                    binding,
                    event,
                    task = "HookRun",
                    queue,
                    output,
                    json_fields,
                    "{message}"
                )
            };
        }
        match level {
            Level::ERROR => line!(error),
            Level::WARN => line!(warn),
            Level::INFO => line!(info),
            Level::DEBUG => line!(debug),
            Level::TRACE => line!(trace),
        }
    }
}
