//! One connection with one request under way: written whole or in pieces, read to the end of its answer.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustls::{ClientConnection, StreamOwned};

use super::Request;
use super::answer::{self, Answer, Head};

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection to a server.
pub struct Connection {
    stream: Stream,
    host: String,
    authorization: Option<String>,
    /// What came and was not used yet.
    inbox: Vec<u8>,
}

const READ_BYTES: usize = 32 << 10;

// === impl Connection ===

impl Connection {
    pub(crate) fn new(stream: Stream, host: String, authorization: Option<String>) -> Self {
        Self {
            stream,
            host,
            authorization,
            inbox: Vec::new(),
        }
    }

    /// Sends a request and reads the whole answer.
    pub fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let bytes = self.to_bytes(request);
        let sent = self.send(&bytes);
        // A server may answer before it has read everything, and close: its answer counts.
        match self.receive(&request.method) {
            Ok(answer) => Ok(answer),
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

    /// Reads the answer to what was sent.
    pub fn receive(&mut self, method: &str) -> io::Result<Answer> {
        let head = self.receive_head()?;
        self.receive_body(head, method)
    }

    fn receive_body(&mut self, head: Head, method: &str) -> io::Result<Answer> {
        let mut body = Vec::new();
        if head.has_body(method) {
            match head.framing() {
                answer::Framing::Length(length) => self.receive_length(length, &mut body)?,
                answer::Framing::Chunked => self.receive_chunks(&mut body)?,
                answer::Framing::UntilClosed => self.receive_rest(&mut body)?,
            }
        }
        Ok(head.into_answer(body))
    }

    /// Reads the answer to a watch: all of a refusal, and of a stream, which may never end, nothing but its start.
    pub fn receive_start(&mut self, method: &str) -> io::Result<Answer> {
        let head = self.receive_head()?;
        let mut answer = match head.status {
            200 => head.into_answer(Vec::new()),
            _ => self.receive_body(head, method)?,
        };
        answer.closes = true;
        Ok(answer)
    }

    /// Interim answers (1xx) are passed over.
    fn receive_head(&mut self) -> io::Result<Head> {
        loop {
            match Head::parse(&self.inbox)? {
                Some((head, length)) => {
                    self.inbox.drain(..length);
                    if head.status >= 200 || head.status == 101 {
                        return Ok(head);
                    }
                }
                None => self.read_more()?,
            }
        }
    }

    fn receive_length(&mut self, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
        while self.inbox.len() < length {
            self.read_more()?;
        }
        body.extend(self.inbox.drain(..length));
        Ok(())
    }

    fn receive_chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let line = self.receive_line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| io::Error::other(format!("{line:?} is no chunk size")))?;
            if size == 0 {
                while !self.receive_line()?.is_empty() {}
                return Ok(());
            }
            self.receive_length(size, body)?;
            self.receive_line()?;
        }
    }

    fn receive_rest(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            body.append(&mut self.inbox);
            match self.read_more() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn receive_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.inbox.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.inbox.drain(..end + 2).take(end).collect();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let start = self.inbox.len();
        self.inbox.resize(start + READ_BYTES, 0);
        let read = self.stream.read(&mut self.inbox[start..]);
        self.inbox.truncate(start + *read.as_ref().unwrap_or(&0));
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

    /// What is read from a server that sends these bytes and closes.
    #[track_caller]
    fn check(sent: &'static [u8], expected: Result<(u16, &str), io::ErrorKind>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 4];
                stream.read_exact(&mut asked).unwrap();
                stream.write_all(sent).unwrap();
            });
            let stream = Stream::Plain(TcpStream::connect(address).unwrap());
            let mut connection = Connection::new(stream, "h".to_owned(), None);
            connection.send(b"GET ").unwrap();
            connection.receive("GET")
        });
        let got = answer.map(|answer| (answer.status, String::from_utf8(answer.body).unwrap()));
        let expected = expected.map(|(status, body)| (status, body.to_owned()));
        assert_eq!(got.map_err(|error| error.kind()), expected);
    }

    #[test]
    fn the_end_of_a_body_is_told_in_three_ways() {
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Ok((200, "hi")));
        check(
            b"HTTP/1.1 404 N\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n",
            Ok((404, "abc")),
        );
        check(b"HTTP/1.1 500 E\r\n\r\nrest", Ok((500, "rest")));
        check(b"HTTP/1.1 304 N\r\n\r\n", Ok((304, "")));
    }

    #[test]
    fn interim_answers_are_passed_over() {
        check(
            b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Ok((200, "")),
        );
    }

    #[test]
    fn an_answer_that_is_cut_off_is_an_error() {
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
