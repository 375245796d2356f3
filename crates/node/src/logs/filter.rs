//! [`LogOptions`]: which entries a client gets, and in which form.

use jiff::Timestamp;

use super::entry::{Entry, Stream};

/// What a client requests of a log (upstream: `PodLogOptions`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether new entries are sent as they come, until the container ends.
    pub follow: bool,
    /// Whether the log is that of the container's previous instance.
    pub previous: bool,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// Entries before this time are left out.
    pub since: Option<Timestamp>,
    /// The number of lines from the end of the log.
    pub tail_lines: Option<u64>,
    /// The maximum number of bytes.
    pub limit_bytes: Option<u64>,
    /// The stream; both if there is none.
    pub stream: Option<Stream>,
}

/// Selects and formats entries.
#[derive(Debug)]
pub(super) struct Filter {
    options: LogOptions,
    /// Bytes that may still be sent.
    remaining: u64,
    /// Whether the next entry begins a line.
    at_line_start: bool,
}

impl Filter {
    pub(super) fn new(options: &LogOptions) -> Self {
        Self {
            options: options.clone(),
            remaining: options.limit_bytes.unwrap_or(u64::MAX),
            at_line_start: true,
        }
    }

    /// Whether the limit of bytes is reached.
    pub(super) fn is_done(&self) -> bool {
        self.remaining == 0
    }

    /// Appends an entry, if it is selected.
    pub(super) fn append(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let at_line_start = self.at_line_start;
        self.at_line_start = entry.text.is_empty() || entry.text.ends_with(b"\n");
        let is_old = self.options.since.is_some_and(|since| entry.time < since);
        let is_other = self.options.stream.is_some_and(|stream| entry.stream != stream);
        if is_old || is_other {
            return;
        }
        let start = out.len();
        if self.options.timestamps && at_line_start {
            out.extend_from_slice(format!("{:.9} ", entry.time).as_bytes());
        }
        out.extend_from_slice(entry.text);
        let length = (out.len() - start) as u64;
        if length > self.remaining {
            out.truncate(start + self.remaining as usize);
        }
        self.remaining = self.remaining.saturating_sub(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-01-01T00:00:00.000000001Z stdout F one
2026-01-01T00:00:01Z stderr P tw
2026-01-01T00:00:02Z stderr F o
2026-01-01T00:00:03.5Z stdout F three
";

    #[track_caller]
    fn check(options: LogOptions, expected: &str) {
        let mut filter = Filter::new(&options);
        let mut out = Vec::new();
        for line in LOG.split_inclusive('\n') {
            filter.append(&Entry::parse(line.as_bytes()).unwrap(), &mut out);
        }
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn entries_are_selected_and_formatted() {
        let options = LogOptions::default;
        check(options(), "one\ntwo\nthree\n");
        let timestamps = LogOptions {
            timestamps: true,
            ..options()
        };
        let expected = "2026-01-01T00:00:00.000000001Z one\n2026-01-01T00:00:01.000000000Z two\n\
                        2026-01-01T00:00:03.500000000Z three\n";
        check(timestamps, expected);
        let since = LogOptions {
            since: Some("2026-01-01T00:00:03Z".parse().unwrap()),
            ..options()
        };
        check(since, "three\n");
        let stderr = LogOptions {
            stream: Some(Stream::Stderr),
            ..options()
        };
        check(stderr, "two\n");
        let limited = LogOptions {
            limit_bytes: Some(6),
            ..options()
        };
        check(limited, "one\ntw");
    }
}
