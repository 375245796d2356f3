//! The sequencer thread: persists, publishes and replies, batch after batch. Under load it waits for nothing but the
//! disk; a single commit costs one switch to it and one back.
//!
//! The next write starts after the callers of the last one have their replies, because what they submit next then
//! shares that write: fewer and larger writes are worth more than a disk that is never idle.

use std::{
    mem,
    sync::Arc,
    thread::{self, JoinHandle},
};

use crate::{
    Error,
    commit::{complete, persist::Persister, submit::BatchBuilder},
};

/// State of the sequencer thread. When the thread ends, by closing or by a panic, the store accepts no more writes.
#[derive(Debug)]
struct Sequencer {
    builder: Arc<BatchBuilder>,
    /// `None` only while the sequencer is dropped.
    persister: Option<Persister>,
}

pub(super) fn start(builder: Arc<BatchBuilder>, persister: Persister) -> Result<JoinHandle<()>, Error> {
    let sequencer = Sequencer {
        builder,
        persister: Some(persister),
    };
    thread::Builder::new()
        .name("store-sequencer".into())
        .spawn(move || sequencer.run())
        .map_err(Error::io("start", "store-sequencer"))
}

impl Sequencer {
    fn run(mut self) {
        let persister = self
            .persister
            .as_mut()
            .expect("the persister is there until the sequencer is dropped");
        loop {
            if self.builder.queue().is_idle() {
                persister.mark_acknowledged();
            }
            if !self.builder.queue().wait() {
                return;
            }
            match self.builder.next_batch(persister) {
                Ok(Some(mut batch)) => {
                    let replies = mem::take(&mut batch.replies);
                    let (outcomes, replaced) = complete(persister, batch, |error| {
                        // A caller that panicked while evaluating has closed the store.
                        self.builder.roll_back(error).ok();
                    });
                    for (reply, outcome) in replies.into_iter().zip(outcomes) {
                        reply.send(outcome).ok();
                    }
                    drop(replaced);
                }
                Ok(None) => {}
                // A caller panicked while evaluating.
                Err(_) => return,
            }
        }
    }
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        self.builder.queue().close();
        // The log releases its directory before the closing caller is notified.
        drop(self.persister.take());
        self.builder.end();
    }
}
