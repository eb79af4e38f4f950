// Types of requests and answers, by the operations of the document.

import type { operations } from './document.js';

/** An operation of the document. */
export type Operation = keyof operations;

type Json<T> = T extends { content: { 'application/json': infer B } } ? B : never;

/** The JSON body of a request. */
export type Body<Op extends Operation> = operations[Op] extends { requestBody?: infer B } ? Json<NonNullable<B>> : never;

/** The data of an answer. */
export type Data<Op extends Operation> = operations[Op] extends { responses: { 200: infer R } } ? (Json<R> extends { data: infer D } ? D : never) : never;

/** What selects the records of a list. Lists are read to their end, so there is no cursor. */
export type Filter<Op extends Operation> = operations[Op] extends { parameters: { query?: infer Q } } ? Omit<NonNullable<Q>, 'cursor' | 'format'> : never;

/** The query of one page. */
export type Query<Op extends Operation> = operations[Op] extends { parameters: { query?: infer Q } } ? Omit<NonNullable<Q>, 'format'> : never;
