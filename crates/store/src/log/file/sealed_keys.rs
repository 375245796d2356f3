//! Opening of sealed values during recovery. A superseded value may be sealed with a key that is gone; only a live value
//! that cannot be opened is an error.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;

use crate::{Config, Error, HistoryLimits, Op, Record, SealId, SealedValue, ValueTransformer, index::Index};

/// How recovery treats the history and the values.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplayOptions {
    pub(crate) limits: HistoryLimits,
    /// Opens sealed values; without it they stay sealed, which is enough to check the files.
    pub(crate) transformer: Option<Arc<dyn ValueTransformer>>,
}

/// The live keys whose values could not be opened, with the reason.
#[derive(Debug, Default)]
pub(crate) struct SealedKeys(HashMap<Bytes, Error>);

impl ReplayOptions {
    pub(crate) fn of(config: &Config) -> ReplayOptions {
        ReplayOptions {
            limits: config.history,
            transformer: config.transformer.clone(),
        }
    }
}

impl SealedKeys {
    /// Fails with the first key, in their order.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let first = self.0.iter().min_by_key(|(key, _)| *key);
        first.map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Opens the values of a transaction. One that cannot be opened stays as it is, without a stamp.
    pub(crate) fn open_ops(&mut self, ops: &mut [Op], options: &ReplayOptions) {
        let Some(transformer) = &options.transformer else {
            return;
        };
        for op in ops {
            match op {
                Op::Put(put) => match transformer.open(&put.key, &put.key, put.value.clone()) {
                    Ok(opened) => {
                        let bytes = std::mem::replace(&mut put.value, opened.bytes);
                        put.sealed = Some(SealedValue {
                            bytes,
                            seal: opened.seal,
                        });
                        self.0.remove(&put.key);
                    }
                    Err(error) => {
                        put.stamp = None;
                        self.0.insert(put.key.clone(), error);
                    }
                },
                Op::Delete { key } => {
                    self.0.remove(key);
                }
            }
        }
    }

    /// Opens the values of a snapshot file.
    pub(crate) fn open_index(&mut self, index: Index, options: &ReplayOptions) -> Index {
        let Some(transformer) = &options.transformer else {
            return index;
        };
        let mut is_changed = false;
        let records: Vec<Arc<Record>> = index
            .map()
            .iter()
            .map(
                |record| match transformer.open(&record.key, &record.key, record.value.clone()) {
                    Ok(opened) if opened.seal == SealId::NONE => record.clone(),
                    Ok(opened) => {
                        is_changed = true;
                        Arc::new(Record {
                            value: opened.bytes,
                            seal: opened.seal,
                            ..Record::clone(record)
                        })
                    }
                    Err(error) => {
                        self.0.insert(record.key.clone(), error);
                        record.clone()
                    }
                },
            )
            .collect();
        match is_changed {
            true => Index::of_sorted(records),
            false => index,
        }
    }
}
