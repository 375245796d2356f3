//! [`Entry`]: a line of a log.

use jiff::Timestamp;

/// The stream that a container wrote a line to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A line of a log, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When it was written.
    pub time: Timestamp,
    /// Where it was written.
    pub stream: Stream,
    /// The text, with the end of the line unless it is a piece.
    pub text: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Parses a line of a log file, with the end of the line; `None` if it has another format.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let (time, rest) = split(line)?;
        let time = std::str::from_utf8(time).ok()?.parse().ok()?;
        let (stream, rest) = split(rest)?;
        let stream = match stream {
            b"stdout" => Stream::Stdout,
            b"stderr" => Stream::Stderr,
            _ => return None,
        };
        let (tags, text) = split(rest)?;
        let is_piece = tags.split(|byte| *byte == b':').next() == Some(b"P");
        let text = match (is_piece, text) {
            (true, [text @ .., b'\n']) => text,
            (_, text) => text,
        };
        Some(Self { time, stream, text })
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b' ')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(Stream, &str)>) {
        let entry = Entry::parse(line.as_bytes());
        let found = entry.map(|entry| (entry.stream, std::str::from_utf8(entry.text).unwrap()));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_line_has_time_stream_tag_and_text() {
        let time = "2016-10-06T00:17:09.669794202Z";
        check(&format!("{time} stdout F a b\n"), Some((Stream::Stdout, "a b\n")));
        check(&format!("{time} stderr P part\n"), Some((Stream::Stderr, "part")));
        check(
            &format!("{time} stdout P:x part\n"),
            Some((Stream::Stdout, "part")),
        );
        check(&format!("{time} stdout F \n"), Some((Stream::Stdout, "\n")));
        check(
            "2016-10-06T02:17:09.669794202+02:00 stdout F a\n",
            Some((Stream::Stdout, "a\n")),
        );
        check(&format!("{time} stdin F a\n"), None);
        check(&format!("{time} stdout"), None);
        check("yesterday stdout F a\n", None);
        check("\n", None);
    }
}
