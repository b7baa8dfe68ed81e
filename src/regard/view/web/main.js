// A page of one file: all elements, opened on what is in it.

import "./elements.js";
import { open } from "./page.js";

open();
