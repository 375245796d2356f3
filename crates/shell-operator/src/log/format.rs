//! Format of log lines.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::{LogSettings, LogType, PROXY_TARGET};

/// Formats events by the current settings.
#[derive(Debug)]
pub(super) struct LineFormat {
    settings: Arc<LogSettings>,
}

/// The message and the fields of an event.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    fields: Map<String, Value>,
}

impl LineFormat {
    pub(super) fn new(settings: Arc<LogSettings>) -> Self {
        Self { settings }
    }

    fn time(&self) -> String {
        let mut time = String::new();
        if !self.settings.no_time {
            // Formatting into a string does not fail.
            let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        }
        time
    }
}

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (level, time) = (*event.metadata().level(), self.time());
        if event.metadata().target() == PROXY_TARGET {
            return writeln!(writer, "{}", fields.message);
        }
        match self.settings.log_type() {
            LogType::Json => writeln!(writer, "{}", fields.into_json(level, time)),
            LogType::Text => writeln!(writer, "{}", fields.into_text(level, &time, false)),
            LogType::Color => writeln!(writer, "{}", fields.into_text(level, &time, true)),
        }
    }
}

impl Fields {
    fn into_json(self, level: Level, time: String) -> Value {
        let mut line = Map::new();
        line.insert("level".to_owned(), level.as_str().to_lowercase().into());
        line.insert("msg".to_owned(), self.message.into());
        line.extend(self.fields);
        if !time.is_empty() {
            line.insert("time".to_owned(), time.into());
        }
        Value::Object(line)
    }

    fn into_text(self, level: Level, time: &str, has_colors: bool) -> String {
        let color = match level {
            _ if !has_colors => "",
            Level::ERROR => "\u{1b}[31m",
            Level::WARN => "\u{1b}[33m",
            _ => "\u{1b}[36m",
        };
        let end = if has_colors { "\u{1b}[0m" } else { "" };
        let space = if time.is_empty() { "" } else { " " };
        let mut line = format!("{time}{space}{color}{level}{end} {}", self.message);
        for (name, value) in &self.fields {
            let value = match value {
                Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '\n']) => text.clone(),
                value => value.to_string(),
            };
            line.push_str(&format!(" {name}={value}"));
        }
        line
    }

    fn insert(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            "json_fields" => {
                let fields = value.as_str().unwrap_or_default();
                if let Ok(Value::Object(fields)) = serde_json::from_str(fields) {
                    self.fields.extend(fields);
                }
            }
            name => {
                self.fields.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        let mut fields = Map::new();
        fields.insert("hook".to_owned(), "a.sh".into());
        fields.insert("error".to_owned(), "it failed".into());
        Fields {
            message: "Hook failed".to_owned(),
            fields,
        }
    }

    #[test]
    fn a_line_is_text_or_json() {
        assert_eq!(
            fields().into_text(Level::ERROR, "T", false),
            r#"T ERROR Hook failed hook=a.sh error="it failed""#
        );
        assert_eq!(
            fields().into_json(Level::ERROR, "T".to_owned()).to_string(),
            r#"{"level":"error","msg":"Hook failed","hook":"a.sh","error":"it failed","time":"T"}"#
        );
        assert!(
            fields()
                .into_text(Level::WARN, "", true)
                .starts_with("\u{1b}[33mWARN\u{1b}[0m ")
        );
    }
}
