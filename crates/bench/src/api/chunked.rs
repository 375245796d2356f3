//! A streaming decoder of HTTP/1.1's chunked transfer coding, without buffering.
//!
//! The format is that of RFC 9112, section 7.1.

use anyhow::{Result, bail};

/// The decoder's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the hexadecimal size of a chunk, read so far as this.
    Size(u64),
    /// Between the size and the end of its line.
    SizeLine(u64),
    /// In the data of a chunk with this much left.
    Data(u64),
    /// Between the data and the end of the line that closes it.
    DataEnd,
    /// After the last chunk, in a line of which this many bytes were seen; an empty line ends the body.
    Trailer(u64),
    /// The body is over; what follows belongs to the next response.
    Done,
}

/// Decodes a chunked body incrementally.
#[derive(Debug)]
pub(crate) struct ChunkedDecoder {
    state: State,
}

impl ChunkedDecoder {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Size(0),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Hands the data within `input` to `visit` and returns how many bytes of `input` belong to this body.
    pub(crate) fn feed(&mut self, input: &[u8], visit: &mut impl FnMut(&[u8])) -> Result<usize> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if let State::Data(left) = self.state {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                visit(&input[at..at + length]);
                at += length;
                self.state = if left == length as u64 {
                    State::DataEnd
                } else {
                    State::Data(left - length as u64)
                };
            } else {
                self.state = self.state.after(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }
}

impl State {
    /// The next state by one byte of framing.
    fn after(self, byte: u8) -> Result<State> {
        Ok(match (self, byte) {
            (State::Size(0) | State::SizeLine(0), b'\n') => State::Trailer(0),
            (State::Size(size) | State::SizeLine(size), b'\n') => State::Data(size),
            (State::Size(size), b'\r' | b';') => State::SizeLine(size),
            (State::Size(size), digit) => State::Size(size << 4 | u64::from(hexadecimal(digit)?)),
            (State::SizeLine(size), _) => State::SizeLine(size),
            (State::DataEnd, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Size(0),
            (State::DataEnd, other) => bail!("byte {other:#04x} after a chunk"),
            (State::Trailer(0), b'\n') => State::Done,
            (State::Trailer(_), b'\n') => State::Trailer(0),
            (State::Trailer(seen), b'\r') => State::Trailer(seen),
            (State::Trailer(seen), _) => State::Trailer(seen + 1),
            (State::Data(_) | State::Done, _) => {
                unreachable!("data is taken whole and nothing follows the end")
            }
        })
    }
}

fn hexadecimal(digit: u8) -> Result<u8> {
    match char::from(digit).to_digit(16) {
        Some(value) => Ok(value as u8),
        None => bail!("byte {digit:#04x} in the size of a chunk"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the same result for input at once and byte by byte.
    #[track_caller]
    fn check(input: &str, data: &str, left: &str) {
        for piece in [input.len(), 1, 3] {
            let mut chunked = ChunkedDecoder::new();
            let mut seen = Vec::new();
            let mut used = 0;
            for part in input.as_bytes().chunks(piece) {
                used += chunked
                    .feed(part, &mut |data| seen.extend_from_slice(data))
                    .unwrap();
                if chunked.is_done() {
                    break;
                }
            }
            assert_eq!(String::from_utf8(seen).unwrap(), data);
            assert!(chunked.is_done(), "the body ends in pieces of {piece}");
            assert_eq!(&input[used..], left);
        }
    }

    #[test]
    fn chunks_are_joined() {
        check("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", "");
    }

    #[test]
    fn sizes_are_hexadecimal_and_may_have_extensions() {
        check(
            "1A;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n",
            "abcdefghijklmnopqrstuvwxyz",
            "",
        );
    }

    #[test]
    fn trailers_are_skipped() {
        check("1\r\na\r\n0\r\nExpires: never\r\n\r\n", "a", "");
    }

    #[test]
    fn bytes_of_the_next_response_are_left() {
        check("1\r\na\r\n0\r\n\r\nHTTP", "a", "HTTP");
    }

    #[test]
    fn a_size_that_is_no_number_is_an_error() {
        assert!(ChunkedDecoder::new().feed(b"xyz\r\n", &mut |_| {}).is_err());
    }
}
