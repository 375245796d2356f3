//! A connection with at most one request in flight.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustls::{ClientConnection, StreamOwned};

use super::Request;
use super::response::{self, Head, Response};

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection to a server.
pub struct Connection {
    stream: Stream,
    host: String,
    authorization: Option<String>,
    /// Received bytes that are not consumed yet.
    buffer: Vec<u8>,
}

const READ_BYTES: usize = 32 << 10;

// === impl Connection ===

impl Connection {
    pub(crate) fn new(stream: Stream, host: String, authorization: Option<String>) -> Self {
        Self {
            stream,
            host,
            authorization,
            buffer: Vec::new(),
        }
    }

    /// Sends a request and reads the whole response.
    pub fn round_trip(&mut self, request: &Request) -> io::Result<Response> {
        let bytes = self.to_bytes(request);
        let sent = self.send(&bytes);
        // A server may respond before it has read the whole request, and close: its response counts.
        match self.receive(&request.method) {
            Ok(response) => Ok(response),
            Err(error) => Err(sent.err().unwrap_or(error)),
        }
    }

    /// The bytes of a request on this connection.
    pub fn to_bytes(&self, request: &Request) -> Vec<u8> {
        request.to_bytes(&self.host, self.authorization.as_deref())
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Reads a response.
    pub fn receive(&mut self, method: &str) -> io::Result<Response> {
        let head = self.receive_head()?;
        self.receive_body(head, method)
    }

    fn receive_body(&mut self, head: Head, method: &str) -> io::Result<Response> {
        let mut body = Vec::new();
        if head.has_body(method) {
            match head.framing() {
                response::BodyFraming::Length(length) => self.receive_length(length, &mut body)?,
                response::BodyFraming::Chunked => self.receive_chunks(&mut body)?,
                response::BodyFraming::UntilClosed => body = self.receive_to_end()?,
            }
        }
        Ok(head.into_response(body))
    }

    /// Reads the response to a watch: all of an error, but only the head of a stream, which may never end.
    pub fn receive_start(&mut self, method: &str) -> io::Result<Response> {
        let head = self.receive_head()?;
        let mut response = match head.status {
            200 => head.into_response(Vec::new()),
            _ => self.receive_body(head, method)?,
        };
        response.closes = true;
        Ok(response)
    }

    /// Reads bytes after a head as they are, up to and including `end`.
    pub fn receive_until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|bytes| bytes == end) {
                return Ok(self.buffer.drain(..at + end.len()).collect());
            }
            self.read_more()?;
        }
    }

    /// Reads one chunk of a chunked body: all of it, and nothing after it. The last one is empty.
    pub fn receive_chunk(&mut self) -> io::Result<Vec<u8>> {
        let line = self.receive_line()?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)
            .map_err(|_| io::Error::other(format!("invalid chunk size {line:?}")))?;
        let mut chunk = Vec::new();
        if size == 0 {
            while !self.receive_line()?.is_empty() {}
        } else {
            self.receive_length(size, &mut chunk)?;
            self.receive_line()?;
        }
        Ok(chunk)
    }

    /// Reads bytes as they are until the server closes the connection.
    pub fn receive_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            bytes.append(&mut self.buffer);
            match self.read_more() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(bytes),
                Err(error) => return Err(error),
            }
        }
    }

    /// Skips informational responses (1xx).
    fn receive_head(&mut self) -> io::Result<Head> {
        loop {
            match Head::parse(&self.buffer)? {
                Some((head, length)) => {
                    self.buffer.drain(..length);
                    if head.status >= 200 || head.status == 101 {
                        return Ok(head);
                    }
                }
                None => self.read_more()?,
            }
        }
    }

    fn receive_length(&mut self, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
        while self.buffer.len() < length {
            self.read_more()?;
        }
        body.extend(self.buffer.drain(..length));
        Ok(())
    }

    fn receive_chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            match self.receive_chunk()?.as_slice() {
                [] => return Ok(()),
                chunk => body.extend_from_slice(chunk),
            }
        }
    }

    fn receive_line(&mut self) -> io::Result<String> {
        let line = self.receive_until(b"\r\n")?;
        Ok(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned())
    }

    fn read_more(&mut self) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.resize(start + READ_BYTES, 0);
        let read = self.stream.read(&mut self.buffer[start..]);
        self.buffer.truncate(start + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.host)
    }
}

// === impl Stream ===

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(buffer),
            Self::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The response read from a server that sends these bytes and closes.
    #[track_caller]
    fn check(sent: &'static [u8], expected: Result<(u16, &str), io::ErrorKind>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let response = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut received = [0; 4];
                stream.read_exact(&mut received).unwrap();
                stream.write_all(sent).unwrap();
            });
            let stream = Stream::Plain(TcpStream::connect(address).unwrap());
            let mut connection = Connection::new(stream, "h".to_owned(), None);
            connection.send(b"GET ").unwrap();
            connection.receive("GET")
        });
        let actual = response.map(|response| (response.status, String::from_utf8(response.body).unwrap()));
        let expected = expected.map(|(status, body)| (status, body.to_owned()));
        assert_eq!(actual.map_err(|error| error.kind()), expected);
    }

    #[test]
    fn a_body_is_framed_in_three_ways() {
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Ok((200, "hi")));
        check(
            b"HTTP/1.1 404 N\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n",
            Ok((404, "abc")),
        );
        check(b"HTTP/1.1 500 E\r\n\r\nrest", Ok((500, "rest")));
        check(b"HTTP/1.1 304 N\r\n\r\n", Ok((304, "")));
    }

    #[test]
    fn informational_responses_are_skipped() {
        check(
            b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Ok((200, "")),
        );
    }

    #[test]
    fn a_truncated_response_is_an_error() {
        check(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi",
            Err(io::ErrorKind::UnexpectedEof),
        );
        check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            Err(io::ErrorKind::UnexpectedEof),
        );
    }
}
